"""vLLM's CPU build: decode steps and prefill. Usage: vllm_peer.py THREADS MODEL_FOLDER"""

import itertools
import os
import statistics
import sys

THREADS, FOLDER = int(sys.argv[1]), sys.argv[2]
os.environ.update(
    VLLM_ENABLE_V1_MULTIPROCESSING="0",  # so that its steps can be counted from here
    VLLM_CPU_KVCACHE_SPACE="2",  # GiB
    VLLM_CPU_OMP_THREADS_BIND=f"0-{THREADS - 1}",
    VLLM_LOGGING_LEVEL="ERROR",
    VLLM_NO_USAGE_STATS="1",
    HF_HUB_OFFLINE="1",
)
# Jobs and answers go over the standard output, and vLLM prints there.
answers, sys.stdout = sys.stdout, sys.stderr

from vllm import LLM, SamplingParams, TokensPrompt

from common import answer, random_ids, seconds_of

llm = LLM(
    model=FOLDER,
    dtype="bfloat16",
    max_model_len=2304,
    max_num_seqs=64,
    max_num_batched_tokens=4096,
    enable_prefix_caching=False,
)
engine = llm.llm_engine
vocabulary = llm.get_tokenizer().vocab_size
names = map(str, itertools.count())


def add(count, context, new_tokens):
    sampling = SamplingParams(max_tokens=new_tokens, temperature=1.0, ignore_eos=True, detokenize=False)
    for ids in random_ids(count, context, vocabulary).tolist():
        engine.add_request(next(names), TokensPrompt(prompt_token_ids=ids), sampling)


def all_steps():
    while engine.has_unfinished_requests():
        engine.step()


def decode(batch, context, steps):
    """Seconds between steps in which each sequence gets a token; the first ones read the prompts."""
    add(batch, context, steps + 9)
    for _ in range(8):
        engine.step()
    seconds = [seconds_of(engine.step) for _ in range(steps)]
    all_steps()
    return {"seconds": statistics.median(seconds)}


def prefill(tokens):
    add(1, tokens, 1)
    return {"seconds": seconds_of(all_steps)}


sys.stdout = answers
answer({"decode": decode, "prefill": prefill})
