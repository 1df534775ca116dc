"""A whole step of TRL's GRPOTrainer on a tiny model. Usage: trl_peer.py THREADS DEFAULTS(0|1)

DEFAULTS: bf16 autocast and gradient checkpointing as in a fresh GRPOConfig; without them it is faster on a CPU.
"""

import json
import logging
import os
import random
import statistics
import sys
import tempfile
import time
import warnings

threads, defaults = int(sys.argv[1]), sys.argv[2] == "1"
os.environ.update(OMP_NUM_THREADS=str(threads), HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)

import torch  # noqa: E402
from common import answer  # noqa: E402
from datasets import Dataset  # noqa: E402
from peft import LoraConfig  # noqa: E402
from tokenizers import Tokenizer, models, pre_tokenizers  # noqa: E402
from transformers import (  # noqa: E402
    PreTrainedTokenizerFast,
    Qwen3Config,
    Qwen3ForCausalLM,
    TrainerCallback,
)
from trl import GRPOConfig, GRPOTrainer  # noqa: E402

torch.set_num_threads(threads)
TARGETS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


def word_tokenizer(words):
    vocabulary = {"<pad>": 0, "<eos>": 1, "<unk>": 2, **{f"w{i}": i for i in range(3, words)}}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    special = dict(pad_token="<pad>", eos_token="<eos>", unk_token="<unk>", padding_side="left")
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special)


def tiny_model(shape):
    """`shape` has the keys of config.json; the end token is unlikely, so completions run to the limit."""
    model = Qwen3ForCausalLM(Qwen3Config(**shape, eos_token_id=1, pad_token_id=0))
    with torch.no_grad():
        model.model.embed_tokens.weight[1].mul_(0)
    return model


class Clock(TrainerCallback):
    def __init__(self):
        self.seconds = []

    def on_step_begin(self, *args, **kwargs):
        self.started = time.perf_counter()

    def on_step_end(self, *args, **kwargs):
        self.seconds.append(time.perf_counter() - self.started)


def step(shape, prompts, promptTokens, group, newTokens, steps):
    random.seed(0)
    words = [" ".join(f"w{random.randrange(3, shape['vocab_size'])}" for _ in range(promptTokens)) for _ in range(64)]
    clock, tokens = Clock(), []

    def reward(completion_ids, **_):
        tokens.append(sum(map(len, completion_ids)))
        return [float(sum(ids) % 7) for ids in completion_ids]

    with tempfile.TemporaryDirectory() as folder:
        options = GRPOConfig(
            output_dir=folder,
            per_device_train_batch_size=group * prompts,
            num_generations=group,
            max_completion_length=newTokens,
            max_steps=steps + 1,
            learning_rate=1e-6,
            logging_steps=10_000,
            save_strategy="no",
            report_to=[],
            use_cpu=True,
            bf16=defaults,
            gradient_checkpointing=defaults,
            disable_tqdm=True,
        )
        trainer = GRPOTrainer(
            model=tiny_model(shape),
            args=options,
            reward_funcs=reward,
            train_dataset=Dataset.from_list([{"prompt": text} for text in words]),
            processing_class=word_tokenizer(shape["vocab_size"]),
            peft_config=LoraConfig(r=16, lora_alpha=32, target_modules=TARGETS),
            callbacks=[clock],
        )
        sys.stdout = sys.stderr
        try:
            trainer.train()
        finally:
            sys.stdout = sys.__stdout__
    return {"seconds": statistics.median(clock.seconds[1:]), "tokens": statistics.median(tokens[1:])}


answer({"step": step})
