"""What transformers and PEFT make of exported folders.

    .cache/real/venv/bin/python scripts/real/check_export.py JOB.json > ANSWER.json

JOB: {"folders": [folder], "prompts": [[id]], "newTokens": n, "model": folder, "adapter": folder, "merged": folder}.
ANSWER: "loaded": for each folder the type it is loaded in and greedy ids, computed in float32; "difference": the
largest of `merged`, float32 weights of `model` and `adapter`, from PEFT's merge_and_unload; "update": the largest change
of a weight that the adapter makes.
"""

import json
import sys
import warnings
from pathlib import Path

warnings.filterwarnings("ignore")

import torch
import transformers
from peft import PeftModel
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

transformers.utils.logging.set_verbosity_error()


@torch.no_grad()
def greedy(model, ids, count):
    out = model.generate(
        torch.tensor([ids]), max_new_tokens=count, min_new_tokens=count, do_sample=False, pad_token_id=0, eos_token_id=None
    )
    return out[0, len(ids) :].tolist()


def loaded(folder, prompts, count):
    dtype = str(AutoModelForCausalLM.from_pretrained(folder, dtype="auto").dtype).removeprefix("torch.")
    AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    model.generation_config = transformers.GenerationConfig()
    return {"dtype": dtype, "greedy": [greedy(model, ids, count) for ids in prompts]}


def merged_by_peft(model, adapter):
    base = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    before = {name: value.clone() for name, value in base.state_dict().items()}
    after = PeftModel.from_pretrained(base, adapter).merge_and_unload().state_dict()
    return before, after


def main():
    job = json.loads(Path(sys.argv[1]).read_text())
    answer = {"loaded": [loaded(folder, job["prompts"], job["newTokens"]) for folder in job["folders"]]}
    ours = load_file(Path(job["merged"]) / "model.safetensors")
    before, after = merged_by_peft(job["model"], job["adapter"])
    assert set(ours) <= set(after), set(ours) - set(after)
    answer["difference"] = max(float((ours[name] - after[name]).abs().max()) for name in ours)
    answer["update"] = max(float((after[name] - before[name]).abs().max()) for name in ours)
    print(json.dumps(answer))


main()
