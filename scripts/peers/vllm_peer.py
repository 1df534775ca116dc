"""vLLM on a CPU: decode steps and prefill. Usage: vllm_peer.py THREADS MODEL_FOLDER"""

import os
import sys
import time

threads = int(sys.argv[1])
os.environ.update(
    OMP_NUM_THREADS=str(threads),
    VLLM_CPU_OMP_THREADS_BIND=f"0-{threads - 1}",
    VLLM_CPU_KVCACHE_SPACE="4",
    VLLM_LOGGING_LEVEL="ERROR",
    VLLM_NO_USAGE_STATS="1",
    VLLM_ENABLE_V1_MULTIPROCESSING="0",
    HF_HUB_OFFLINE="1",
)

import torch  # noqa: E402
from common import answer, random_ids  # noqa: E402
from vllm import LLM, SamplingParams  # noqa: E402

# Its processes print to stdout, which is for answers.
sys.stdout = sys.stderr
llm = LLM(model=sys.argv[2], dtype="bfloat16", max_model_len=2048, max_num_seqs=64, enable_prefix_caching=False)
sys.stdout = sys.__stdout__
vocabulary = llm.llm_engine.model_config.get_vocab_size()


def generation_seconds(batch, context, new_tokens):
    prompts = [{"prompt_token_ids": ids} for ids in random_ids(batch, context, vocabulary).tolist()]
    sampling = SamplingParams(temperature=1.0, max_tokens=new_tokens, ignore_eos=True, detokenize=False)
    started = time.perf_counter()
    llm.generate(prompts, sampling, use_tqdm=False)
    return time.perf_counter() - started


def decode(batch, context, steps):
    """What `steps` more tokens take, after the prompts and the first token."""
    first = generation_seconds(batch, context, 1)
    return {"seconds": (generation_seconds(batch, context, steps + 1) - first) / steps}


def prefill(tokens):
    return {"seconds": generation_seconds(1, tokens, 1)}


torch.set_num_threads(threads)
answer({"decode": decode, "prefill": prefill})
