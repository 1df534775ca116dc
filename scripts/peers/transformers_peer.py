"""transformers: decode steps and prefill. Usage: transformers_peer.py THREADS [MODEL_FOLDER]"""

import statistics
import sys
import time

import torch
from common import answer, random_ids, random_model, stored_model, seconds_of
from transformers import GenerationConfig, LogitsProcessorList
from transformers.cache_utils import DynamicCache

torch.set_num_threads(int(sys.argv[1]))
model = (stored_model(sys.argv[2]) if len(sys.argv) > 2 else random_model()).eval()
config = model.config


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

    ids = random_ids(batch, context, config.vocab_size)
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
    cache = DynamicCache(config=config)
    for layer in range(config.num_hidden_layers):
        shape = (batch, config.num_key_value_heads, context, config.head_dim)
        cache.update(torch.randn(shape, dtype=bf16), torch.randn(shape, dtype=bf16), layer)

    def step():
        out = model(input_ids=random_ids(batch, 1, config.vocab_size), past_key_values=cache, use_cache=True, logits_to_keep=1)
        torch.multinomial(torch.softmax(out.logits[:, -1].float(), -1), 1)

    with torch.no_grad():
        return [seconds_of(step) for _ in range(steps + 1)][1:]


def decode(batch, context, steps):
    measure = steps_after_cache if batch * context > 4000 else generated_steps
    return {"seconds": statistics.median(measure(batch, context, steps))}


def prefill(tokens):
    with torch.no_grad():
        ids = random_ids(1, tokens, config.vocab_size)
        return {"seconds": seconds_of(lambda: model(input_ids=ids, use_cache=True, logits_to_keep=1))}


answer({"decode": decode, "prefill": prefill})
