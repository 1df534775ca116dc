"""What the Python peers share: the model's shape, its random weights, and the loop that answers jobs."""

import json
import sys
import time

import torch
from transformers import AutoModelForCausalLM, Qwen3Config, Qwen3ForCausalLM

SHAPE = dict(
    hidden_size=2048,
    num_hidden_layers=28,
    num_attention_heads=16,
    num_key_value_heads=8,
    head_dim=128,
    intermediate_size=6144,
    vocab_size=151936,
    tie_word_embeddings=True,
    rope_theta=1e6,
    max_position_embeddings=4096,
)


def random_model():
    """Qwen3-1.7B's shape in bf16; the same block of random numbers fills every matrix."""
    config = Qwen3Config(**SHAPE)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("meta"):
        model = Qwen3ForCausalLM(config)
    model.to_empty(device="cpu")
    generator = torch.Generator().manual_seed(0)
    block = (torch.randn(1 << 20, generator=generator, dtype=torch.float32) * 0.02).to(torch.bfloat16)
    for parameter in model.parameters():
        flat = parameter.data.view(-1)
        if parameter.dim() == 1:
            flat.fill_(1)
            continue
        for start in range(0, flat.numel(), block.numel()):
            part = flat[start : start + block.numel()]
            part.copy_(block[: part.numel()])
    # to_empty leaves the buffers empty, too.
    half = torch.arange(0, config.head_dim, 2, dtype=torch.float32) / config.head_dim
    model.model.rotary_emb.inv_freq = 1.0 / (SHAPE["rope_theta"] ** half)
    model.tie_weights()
    torch.set_default_dtype(torch.float32)
    return model


def stored_model(folder):
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)


def random_ids(rows, length, vocabulary=151_000):
    return torch.randint(0, vocabulary, (rows, length))


def resident_bytes(field="VmRSS"):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(field))


def forget_peak():
    """VmHWM starts again from what is resident now."""
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def seconds_of(work):
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def answer(jobs):
    """Reads one job a line, {"job": name, ...}, and prints one line of JSON for each."""
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps(jobs[request.pop("job")](**request)), flush=True)
