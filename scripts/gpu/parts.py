"""The parts of a step through torch alone: how much of the measured copy bandwidth and matmul rate libtorch's
products and attention reach, and what a launch costs. These are the shares that the estimates of `acoer plan` assume
(src/plan/gpu-time.ts), so each is printed next to the assumption.

    parts.py [--device cuda|cpu]

--device cpu runs tiny sizes, which checks this script, not the processor. After each part a line has everything
so far as JSON.
"""
import argparse
import json
import time

import torch
import torch.nn.functional as F

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument('--device', default='cuda')
args = parser.parse_args()

device = torch.device('cuda:0' if args.device == 'cuda' else args.device)
gpu = device.type != 'cpu'
results = {'torch': torch.__version__, 'device': torch.cuda.get_device_name(device) if gpu else 'cpu'}

# Qwen3-1.7B.
HIDDEN, INTERMEDIATE, VOCAB, LAYERS = (2048, 6144, 151936, 28) if gpu else (64, 192, 1024, 2)
KV_HEADS, GROUP, HEAD_DIM = (8, 2, 128) if gpu else (2, 2, 128)
ROWS = 16 if gpu else 2


def bf16(*shape):
    return torch.randn(*shape, device=device, dtype=torch.bfloat16)


def synchronize():
    if gpu:
        torch.cuda.synchronize(device)


def seconds(run, repeats=30):
    """Best of three means of `repeats` calls."""
    for _ in range(3):
        run()
    synchronize()
    best = float('inf')
    for _ in range(3):
        start = time.perf_counter()
        for _ in range(repeats):
            run()
        synchronize()
        best = min(best, (time.perf_counter() - start) / repeats)
    return best


def graphed(run):
    """`run` as a CUDA graph, which excludes the host's part."""
    if not gpu:
        return run
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            run()
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        run()
    return graph.replay


def ceilings():
    """Bytes per second of a copy, FLOPs per second of a bfloat16 product."""
    count = 1 << 30 if gpu else 1 << 20
    source = torch.empty(count, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    bandwidth = 2 * count / seconds(lambda: target.copy_(source), 10)
    side = 8192 if gpu else 256
    a, b = bf16(side, side), bf16(side, side)
    rate = 2 * side**3 / seconds(lambda: a @ b, 10)
    results.update({'copy GB/s': bandwidth / 1e9, 'matmul TFLOP/s': rate / 1e12})
    print(f"{results['device']}, torch {results['torch']}: copy {bandwidth / 1e9:.0f} GB/s, "
          f'bf16 matmul {rate / 1e12:.1f} TFLOP/s')
    return bandwidth, rate


def small_operations():
    """One elementwise operation launched by the host and as a graph node; an upload that the host waits for."""
    x = bf16(16, 2048)

    def hundred():
        for _ in range(100):
            torch.add(x, 1, out=x)

    a, b = bf16(16, 2048), bf16(2048, 16)
    skinny = torch.empty(16, 16, device=device, dtype=torch.bfloat16)

    def hundred_products():
        for _ in range(100):
            torch.mm(a, b, out=skinny)

    host = torch.tensor([1] * 16)
    found = {
        'eager op us': seconds(hundred, 10) * 1e4,
        'graph node us': seconds(graphed(hundred), 10) * 1e4,
        'LoRA product us': seconds(hundred_products, 10) * 1e4,
        'LoRA product as graph node us': seconds(graphed(hundred_products), 10) * 1e4,
        'upload with wait us': seconds(lambda: host.to(device)) * 1e6,
    }
    results.update(found)
    print(', '.join(f'{name} {value:.2f}' for name, value in found.items()))


def decode_products(bandwidth):
    """The matrix products of a decode step; each call has its own weights, so that nothing stays in the L2
    cache.
    """
    kv = 2 * KV_HEADS * HEAD_DIM
    q = KV_HEADS * GROUP * HEAD_DIM
    shapes = {'qkv': (q + kv, HIDDEN), 'o': (HIDDEN, q), 'gateUp': (2 * INTERMEDIATE, HIDDEN),
              'down': (HIDDEN, INTERMEDIATE), 'head': (VOCAB, HIDDEN)}
    batches = (1, 4, 8, 16, 32, 64, 96)
    for name, (rows, cols) in shapes.items():
        copies = max(1, min(LAYERS, int(1.2e9 / (rows * cols * 2))))
        weights = [bf16(rows, cols) for _ in range(copies)]
        shares = []
        for batch in batches:
            x = bf16(batch, cols)
            time_each = seconds(graphed(lambda: [x @ w.t() for w in weights]), 5) / copies
            shares.append(rows * cols * 2 / time_each / bandwidth)
            results[f'product {name} m{batch}'] = shares[-1]
        print(f'product {name:7s} fraction of copy bandwidth at m = {" ".join(map(str, batches))}:',
              ' '.join(f'{share:.2f}' for share in shares))


def decode_attention(bandwidth):
    """libtorch's attention of one decode step, as the engine calls it without its own kernels: grouped heads folded
    into rows, with a mask.
    """
    for length in (64, 1024, 4096, 8192) if gpu else (64, 300):
        total = ROWS * KV_HEADS * length * HEAD_DIM * 4
        copies = max(1, int(4e8 / total)) if gpu else 1
        caches = [(bf16(ROWS, KV_HEADS, length, HEAD_DIM), bf16(ROWS, KV_HEADS, length, HEAD_DIM))
                  for _ in range(copies)]
        q = bf16(ROWS, KV_HEADS, GROUP, HEAD_DIM)
        mask = (torch.arange(length, device=device) < length).expand(ROWS, 1, GROUP, length)
        attend = lambda: [F.scaled_dot_product_attention(q, k, v, attn_mask=mask) for k, v in caches]
        elapsed = seconds(graphed(attend), 5) / copies
        results[f'sdpa L{length}'] = total / elapsed / bandwidth
        print(f'attention {ROWS} x {length}: sdpa {elapsed * 1e6:.0f} us = '
              f'{total / elapsed / bandwidth:.2f} of copy bandwidth')


def sampler():
    """The sampler's passes over the logits (native/core/generate/sampler_tensor_ops.cpp) in float64 and float32."""
    logits = torch.randn(ROWS, VOCAB, device=device)
    for dtype in (torch.float64, torch.float32):
        draw = seconds(graphed(lambda: torch.cumsum(torch.softmax(logits.to(dtype), 1), 1)), 5)
        logprobs = seconds(graphed(lambda: torch.log_softmax(logits.to(dtype), 1)), 5)
        results[f'sampler {dtype} ms'] = (draw + logprobs) * 1e3
        print(f'sampler in {dtype}: {1e3 * (draw + logprobs):.2f} ms')


def training_head(rate):
    """The vocabulary head in training, forward and backward, by tokens per chunk."""
    weight = bf16(VOCAB, HIDDEN)
    for chunk in (110, 256, 512, 1024, 2048):
        hidden = bf16(chunk, HIDDEN)

        def visit():
            logits = torch.mm(hidden, weight.t(), out_dtype=torch.float32)
            logits.sub_(torch.logsumexp(logits, 1, True))
            probabilities = logits.exp()
            logits.mul_(probabilities).sum(1)
            return probabilities.bfloat16() @ weight

        each = 1e6 * seconds(visit, 3) / chunk
        results[f'head chunk {chunk} us a token'] = each
        print(f'head, chunk {chunk}: {each:.1f} us per token (at the matmul rate {4 * VOCAB * HIDDEN / rate * 1e6:.1f})')


if gpu:
    torch.cuda.set_device(device)
for operation in ('_flash_attention_forward', '_efficient_attention_forward'):
    print(getattr(torch.ops.aten, operation).default._schema)
bandwidth, rate = ceilings()
for part in (small_operations, lambda: decode_products(bandwidth), lambda: decode_attention(bandwidth), sampler,
             # On a CPU torch has no bfloat16 product with float32 output.
             *([lambda: training_head(rate)] if gpu else [])):
    part()
    print(json.dumps(results), flush=True)
