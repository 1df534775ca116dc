"""What test/real expects of SmolLM2-135M-Instruct: transformers', PEFT's and TRL's numbers.

    .cache/real/venv/bin/python -m pip install -r scripts/real/requirements-references.txt
    .cache/real/venv/bin/python scripts/real/references.py [PART...]

Parts (default: all): logprobs, greedy, chats, sampler, gradients, trl. Reads the models of scripts/real/fetch-smollm2 and
writes test/fixtures/real. Stops when a fixture would be ill-conditioned.
"""

import json
import os
import sys
import tempfile
import warnings
from pathlib import Path

warnings.filterwarnings("ignore")
sys.path.append(str(Path(__file__).resolve().parents[1] / "fixtures"))

import torch
import transformers
from common import ALL_TARGETS, pack, rng
from peft import LoraConfig, get_peft_model
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

transformers.utils.logging.set_verbosity_error()
torch.set_num_threads(os.cpu_count())  # common sets one

ROOT = Path(__file__).resolve().parents[2]
MODELS = ROOT / ".cache" / "real"
OUT = ROOT / "test" / "fixtures" / "real"


def load(dtype="float32"):
    folder = MODELS / {"float32": "fp32", "bfloat16": "bf16"}[dtype]
    return AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype)).eval()


def tokenizer():
    return AutoTokenizer.from_pretrained(MODELS / "fp32")


def write_json(name, value):
    (OUT / name).write_text(json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n")


def write_tensors(name, tensors):
    save_file({key: value.detach().contiguous() for key, value in tensors.items()}, OUT / name)


def scores(model, ids, prompt_length):
    """Log-probs and entropies of the ids from `prompt_length` on, from logits in float64."""
    logits = model(torch.tensor([ids])).logits[0, prompt_length - 1 : -1].double()
    logps = logits.log_softmax(-1)
    own = logps.gather(-1, torch.tensor(ids[prompt_length:])[:, None])[:, 0]
    return own, -(logps.exp() * logps).sum(-1)


@torch.no_grad()
def logprobs():
    texts = json.loads((ROOT / "scripts" / "real" / "texts.json").read_text())
    sequences = [(tokenizer()(text).input_ids, 1) for text in texts.values()]
    tensors = pack(sequences)
    for dtype in ("float32", "bfloat16"):
        model = load(dtype)
        parts = [scores(model, ids, p) for ids, p in sequences]
        for name, values in zip(("logprobs", "entropies"), zip(*parts)):
            tensors[f"{dtype}.{name}"] = torch.cat(values)
    gap = (tensors["float32.logprobs"] - tensors["bfloat16.logprobs"]).abs()
    print(f"{len(tensors['ids'])} tokens; bf16 is {gap.mean():.4f} from fp32 on average, {gap.max():.3f} at most")
    write_tensors("logprobs.safetensors", tensors)
    write_json("texts.json", {"texts": list(texts.values())})


QUESTIONS = [
    "What is 17 + 25?",
    "Write a short poem about an owl that counts the stars.",
    "Explain in three sentences why the sky is blue.",
    "Write a Python function that returns the n-th Fibonacci number.",
    "Anna has 12 apples. She gives 5 to Ben and buys 8 more. How many apples has she now? Think step by step.",
    "List five rivers in Europe.",
    "Translate into French: the cat sleeps on the warm stove.",
]
MARGIN = 1e-3  # of the two best logits; rounding moves them by 1e-4 on the longest of these


def prompt_ids(tok, question):
    messages = [{"role": "user", "content": question}]
    return tok.apply_chat_template(messages, add_generation_prompt=True, return_dict=True)["input_ids"]


@torch.no_grad()
def greedy():
    model, tok, cases = load(), tokenizer(), []
    for question in QUESTIONS:
        ids = prompt_ids(tok, question)
        out = model.generate(
            torch.tensor([ids]), max_new_tokens=80, do_sample=False, return_dict_in_generate=True, output_scores=True
        )
        margins = [float(s[0].topk(2).values.diff().abs()) for s in out.scores]
        sure = next((i for i, margin in enumerate(margins) if margin < MARGIN), len(margins))
        cases.append({"prompt": ids, "ids": out.sequences[0, len(ids) : len(ids) + sure].tolist()})
    total = sum(len(case["ids"]) for case in cases)
    print(f"greedy: {[len(case['ids']) for case in cases]} tokens, together {total}")
    assert total >= 300
    write_json("greedy.json", cases)


ROLES = [["user"], ["system", "user"], ["user", "assistant", "user"], ["system", "user", "assistant", "user"]]
WORDS = ["owl", "12", "+", "é", "数学", "\n", "  ", "<think>", "</think>", "<|im_end|>", "{{ x }}", "$x^2$", "\t", "🦉",
         "'quoted'", '"double"', "\\boxed{7}", "</s>", "مرحبا", "a\u0301", "--", "…"]


def chats():
    tok, cases = tokenizer(), []
    for index in range(200):
        random = rng("chats", index)
        messages = [
            {"role": role, "content": " ".join(random.choice(WORDS, size=random.integers(0, 9)).tolist())}
            for role in ROLES[index % len(ROLES)]
        ]
        adds = bool(index % 8 < 6)
        if not adds:
            messages.append({"role": "assistant", "content": "so 21"})
        text = tok.apply_chat_template(messages, tokenize=False, add_generation_prompt=adds)
        ids = tok(text, add_special_tokens=False).input_ids
        cases.append({"messages": messages, "addGenerationPrompt": adds, "text": text, "ids": ids,
                      "decoded": tok.decode(ids, clean_up_tokenization_spaces=False)})
    write_json("chats.json", cases)
    print(f"{len(cases)} conversations, {sum(len(case['ids']) for case in cases)} ids")


SETTINGS = {
    "plain": {"temperature": 1.0},
    "cold": {"temperature": 0.6},
    "hot": {"temperature": 1.5},
    "top-k": {"temperature": 1.0, "topK": 12},
    "top-p": {"temperature": 1.0, "topP": 0.7},
    "min-p": {"temperature": 1.0, "minP": 0.05},
    "penalty": {"temperature": 1.0, "repetitionPenalty": 1.3},
    "all": {"temperature": 0.8, "topK": 40, "topP": 0.9, "minP": 0.02, "repetitionPenalty": 1.2},
}
HF_NAMES = {"temperature": "temperature", "topK": "top_k", "topP": "top_p", "minP": "min_p",
            "repetitionPenalty": "repetition_penalty"}
SAMPLES = 4000
MIN_CELL = 8


@torch.no_grad()
def sampler():
    """Next-token probabilities by transformers' own processors; tokens rarer than a cell of the test are pooled."""
    from scipy.stats import chi2

    model, tok, cases = load(), tokenizer(), []
    for index, (name, setting) in enumerate(SETTINGS.items()):
        ids = prompt_ids(tok, QUESTIONS[1]) + tok("Yesterday I bought a").input_ids
        config = GenerationConfig(do_sample=True, **({"top_k": 0} | {HF_NAMES[k]: v for k, v in setting.items()}))
        model._prepare_special_tokens(config, kwargs_has_attention_mask=True, device=model.device)
        processors = model._get_logits_processor(config, device="cpu", logits_processor=[], input_ids_seq_length=1)
        row = torch.tensor([ids])
        probabilities = processors(row, model(row).logits[:, -1].clone()).double().softmax(-1)[0]
        kept = (probabilities * SAMPLES >= MIN_CELL).nonzero()[:, 0]
        rest = float(1 - probabilities[kept].sum())
        cells = len(kept) + (1 if rest * SAMPLES >= MIN_CELL else 0)
        allowed = int((probabilities > 0).sum())
        print(f"{name}: {cells} cells, {allowed} tokens allowed, {rest:.3f} pooled")
        assert cells > 3
        cases.append({
            "name": name, "setting": setting, "prompt": ids, "samples": SAMPLES, "seed": 2000 + index,
            "tokens": kept.tolist(), "probabilities": probabilities[kept].tolist(), "df": cells - 1,
            "critical": float(chi2.isf(1e-3, cells - 1)),
            "allowed": (probabilities > 0).nonzero()[:, 0].tolist() if allowed < 1000 else None,
        })
    write_json("sampler.json", {"minCell": MIN_CELL, "cases": cases})


LAYERS = [0, 13, 29]


def adapted():
    """The model with an adapter on three layers whose B is not zero."""
    torch.manual_seed(0)
    config = LoraConfig(r=2, lora_alpha=4, target_modules=ALL_TARGETS, layers_to_transform=LAYERS, layers_pattern="layers",
                        task_type="CAUSAL_LM")
    model = get_peft_model(load(), config).eval()
    random = rng("adapter")
    with torch.no_grad():
        for key, value in sorted(model.named_parameters()):
            if "lora_" in key:
                value.copy_(torch.from_numpy(random.standard_normal(value.shape)) * (0.02 if "lora_A" in key else 0.05))
    return model


def lora_gradients(model):
    """Gradients under the names in adapter_model.safetensors."""
    return {
        key.replace(".default", ""): value.grad
        for key, value in model.named_parameters()
        if "lora_" in key and ".default" in key  # TRL keeps the reference as another adapter
    }


def answers(tok):
    """Two prompts with four answers each, as (ids, prompt length), and advantages."""
    rows = []
    for question, texts in (
        (QUESTIONS[4], ["Anna has 12 - 5 + 8 = 15 apples.", "15", "She has 12 apples and 5 and 8, so 25.",
                        "12 - 5 = 7.\n7 + 8 = 15.\nThe answer is \\boxed{15}."]),
        (QUESTIONS[0], ["42", "17 + 25 = 42.", "17 + 25 = 32.", "<think>\n17 + 20 is 37, and 5 more is 42\n</think>\n42"]),
    ):
        prompt = prompt_ids(tok, question)
        rows += [(prompt + tok(text).input_ids + [tok.eos_token_id], len(prompt)) for text in texts]
    return rows, torch.tensor([0.4, 0.9, -1.4, 0.1, 0.8, 0.3, -1.2, 0.1])


def gradients():
    model, tok = adapted(), tokenizer()
    model.save_pretrained(OUT / "adapter")
    path = OUT / "adapter" / "adapter_config.json"
    saved = json.loads(path.read_text())
    # PEFT writes a set, in another order each time, and the path of the model.
    saved |= {"target_modules": sorted(saved["target_modules"]), "base_model_name_or_path": "SmolLM2"}
    path.write_text(json.dumps(saved, indent=1) + "\n")
    (OUT / "adapter" / "README.md").unlink(missing_ok=True)
    sequences, advantages = answers(tok)
    parts = [scores(model, ids, p)[0] for ids, p in sequences]
    weights = torch.cat([advantage.expand(len(part)) for advantage, part in zip(advantages, parts)])
    values = torch.cat(parts)
    (-(weights * values).sum() / len(values)).backward()
    tensors = pack(sequences) | {"advantages": weights.double(), "logprobs": values}
    write_tensors("gradients.safetensors", tensors | lora_gradients(model))
    print(f"gradients of {len(lora_gradients(model))} tensors over {len(values)} tokens")


def trl():
    """The loss, metrics and gradients of TRL's GRPOTrainer on the answers: clipped ratios and a KL term."""
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    tok = tokenizer()
    sequences, advantages = answers(tok)
    longest, most = max(p for _, p in sequences), max(len(ids) - p for ids, p in sequences)
    args = GRPOConfig(
        output_dir=tempfile.mkdtemp(), use_cpu=True, bf16=False, gradient_checkpointing=False, report_to="none",
        per_device_train_batch_size=8, num_generations=4, max_completion_length=most, loss_type="grpo", beta=0.04,
    )
    trainer = GRPOTrainer(
        model=adapted(), args=args, reward_funcs=lambda **_: [0.0], processing_class=tok,
        train_dataset=Dataset.from_dict({"prompt": ["x"]}),
    )
    trainer.current_gradient_accumulation_steps = 1  # Trainer sets this in its loop
    model = trainer.model.train()
    prompt, completion = torch.zeros(8, longest).long(), torch.zeros(8, most).long()
    prompt_mask, mask = torch.zeros_like(prompt), torch.zeros_like(completion)
    for row, (ids, p) in enumerate(sequences):
        prompt[row, longest - p :], prompt_mask[row, longest - p :] = torch.tensor(ids[:p]), 1
        completion[row, : len(ids) - p], mask[row, : len(ids) - p] = torch.tensor(ids[p:]), 1
    whole, whole_mask = torch.cat([prompt, completion], 1), torch.cat([prompt_mask, mask], 1)
    with torch.no_grad():
        current = trainer._get_per_token_logps_and_entropies(model, whole, whole_mask, most)[0]
        with model.disable_adapter():
            reference = trainer._get_per_token_logps_and_entropies(model, whole, whole_mask, most)[0]
    old = current + torch.from_numpy(rng("old").standard_normal(current.shape) * 0.2).float()
    ratios = (current - old).exp()[mask.bool()]
    assert all((ratios - bound).abs().min() > 1e-4 for bound in (0.8, 1.2))
    inputs = {
        "prompt_ids": prompt, "prompt_mask": prompt_mask, "completion_ids": completion, "completion_mask": mask,
        "advantages": advantages, "old_per_token_logps": old, "ref_per_token_logps": reference,
        "num_items_in_batch": mask.sum(),
    }
    loss = trainer._compute_loss(model, inputs)
    loss.backward()
    metrics = {key: values[0] for key, values in trainer._metrics["train"].items()}
    tensors = pack(sequences) | {"advantages": advantages.double()}
    tensors |= {"old": old[mask.bool()].double(), "reference": reference[mask.bool()].double()}
    write_tensors("trl.safetensors", tensors | lora_gradients(model))
    write_json("trl.json", {"loss": loss.item(), "beta": 0.04, "metrics": metrics})
    print(f"TRL's loss {loss.item():.6f}, {metrics}")


PARTS = [logprobs, greedy, chats, sampler, gradients, trl]


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    wanted = sys.argv[1:] or [part.__name__ for part in PARTS]
    for part in PARTS:
        if part.__name__ in wanted:
            part()


if __name__ == "__main__":
    main()
