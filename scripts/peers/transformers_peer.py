"""transformers: decode steps and prefill. Usage: transformers_peer.py THREADS"""

import statistics
import sys
import time

import torch
from common import SHAPE, answer, random_ids, random_model, seconds_of
from transformers import GenerationConfig, LogitsProcessorList
from transformers.cache_utils import DynamicCache

torch.set_num_threads(int(sys.argv[1]))
model = random_model().eval()


def generation(new_tokens):
    return GenerationConfig(
        max_new_tokens=new_tokens, do_sample=True, top_k=0, temperature=1.0, pad_token_id=0, eos_token_id=None
    )


def generated_steps(batch, context, steps):
    """Seconds between the steps of `generate`, which samples in between."""
    stamps = []

    def stamp(_, scores):
        stamps.append(time.perf_counter())
        return scores

    ids = random_ids(batch, context)
    with torch.no_grad():
        model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            generation_config=generation(steps + 1),
            logits_processor=LogitsProcessorList([stamp]),
        )
    return [after - before for before, after in zip(stamps, stamps[1:])]


def steps_after_cache(batch, context, steps):
    """The same for a long context, whose cache is filled with random numbers."""
    bf16 = torch.bfloat16
    cache = DynamicCache(config=model.config)
    for layer in range(SHAPE["num_hidden_layers"]):
        shape = (batch, SHAPE["num_key_value_heads"], context, SHAPE["head_dim"])
        cache.update(torch.randn(shape, dtype=bf16), torch.randn(shape, dtype=bf16), layer)

    def step():
        out = model(input_ids=random_ids(batch, 1), past_key_values=cache, use_cache=True, logits_to_keep=1)
        torch.multinomial(torch.softmax(out.logits[:, -1].float(), -1), 1)

    with torch.no_grad():
        return [seconds_of(step) for _ in range(steps + 1)][1:]


def decode(batch, context, steps):
    measure = steps_after_cache if batch * context > 4000 else generated_steps
    return {"seconds": statistics.median(measure(batch, context, steps))}


def prefill(tokens):
    with torch.no_grad():
        ids = random_ids(1, tokens)
        return {"seconds": seconds_of(lambda: model(input_ids=ids, use_cache=True, logits_to_keep=1))}


answer({"decode": decode, "prefill": prefill})
