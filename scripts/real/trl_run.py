"""TRL's GRPOTrainer on the task of the study; prints a line of JSON for each step.

    trl_run.py SETTINGS.json

SETTINGS: model (folder; its weights keep their type), adapter (folder or null), train (JSON Lines of problem and
answer), prompt (template), steps, prompts, group, maxNewTokens, temperature, learningRate, seed, threads, autocast
(bf16 autocast), checkpointing, batch (completions trained on at a time), varied (a reward of the length alone).
Otherwise the reward is 1 for a right answer and 1 for the form, as `acc` with formatWeight 1. A line: step, seconds,
generateSeconds, tokens, reward, accuracy, peakBytes.
"""

import json
import logging
import os
import re
import resource
import sys
import tempfile
import time
import warnings

with open(sys.argv[1]) as file:
    settings = json.load(file)
os.environ.update(OMP_NUM_THREADS=str(settings["threads"]), HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)

import torch  # noqa: E402
from datasets import Dataset  # noqa: E402
from peft import LoraConfig, PeftModel  # noqa: E402
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback  # noqa: E402
from trl import GRPOConfig, GRPOTrainer  # noqa: E402

torch.set_num_threads(settings["threads"])
TARGETS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
FORM = re.compile(r"<think>.*?</think>.*\\boxed\{([^{}]*)\}", re.S)

step = {}


def right_and_formed(completions, answer, completion_ids, **_):
    rewards = []
    right = 0
    for completion, gold in zip(completions, answer):
        found = FORM.match(completion[0]["content"].lstrip())
        correct = found is not None and found[1].strip() == gold
        right += correct
        form = float(correct) + float(found is not None)
        rewards.append(float(len(completion[0]["content"]) % 7) if settings["varied"] else form)
    count = len(rewards)
    step.update(
        tokens=sum(map(len, completion_ids)),
        reward=sum(rewards) / count,
        accuracy=right / count,
    )
    return rewards


class Trainer(GRPOTrainer):
    """The time of sampling apart from the rest of a step."""

    def _generate_single_turn(self, *args, **kwargs):
        started = time.perf_counter()
        try:
            return super()._generate_single_turn(*args, **kwargs)
        finally:
            step["generateSeconds"] = time.perf_counter() - started


class Lines(TrainerCallback):
    def on_step_begin(self, *args, **kwargs):
        self.started = time.perf_counter()

    def on_step_end(self, _, state, *args, **kwargs):
        seconds = time.perf_counter() - self.started
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        line = {"step": state.global_step, "seconds": seconds, "peakBytes": peak, **step}
        print(json.dumps(line), file=sys.__stdout__, flush=True)


def problems():
    with open(settings["train"]) as file:
        rows = [json.loads(line) for line in file]
    content = [settings["prompt"].replace("{problem}", row["problem"]) for row in rows]
    return Dataset.from_list(
        [
            {"prompt": [{"role": "user", "content": text}], "answer": row["answer"]}
            for text, row in zip(content, rows)
        ]
    )


def model_and_adapter():
    base = AutoModelForCausalLM.from_pretrained(settings["model"], dtype="auto")
    if settings["adapter"] is None:
        return base, LoraConfig(r=16, lora_alpha=32, target_modules=TARGETS)
    return PeftModel.from_pretrained(base, settings["adapter"], is_trainable=True), None


def main():
    model, adapter = model_and_adapter()
    completions = settings["prompts"] * settings["group"]
    with tempfile.TemporaryDirectory() as folder:
        options = GRPOConfig(
            output_dir=folder,
            seed=settings["seed"],
            per_device_train_batch_size=settings["batch"],
            gradient_accumulation_steps=completions // settings["batch"],
            num_generations=settings["group"],
            max_completion_length=settings["maxNewTokens"],
            temperature=settings["temperature"],
            max_steps=settings["steps"],
            shuffle_dataset=False,
            learning_rate=settings["learningRate"],
            lr_scheduler_type="constant",
            loss_type="grpo",
            beta=0.0,
            logging_steps=10_000,
            save_strategy="no",
            report_to=[],
            use_cpu=True,
            bf16=settings["autocast"],
            gradient_checkpointing=settings["checkpointing"],
            disable_tqdm=True,
        )
        trainer = Trainer(
            model=model,
            args=options,
            reward_funcs=right_and_formed,
            train_dataset=problems(),
            processing_class=AutoTokenizer.from_pretrained(settings["model"], padding_side="left"),
            peft_config=adapter,
            callbacks=[Lines()],
        )
        sys.stdout = sys.stderr
        trainer.train()


main()
