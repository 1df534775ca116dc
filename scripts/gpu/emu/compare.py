"""Compares the emulated decode attention with torch's in float64: compare.py LIBRARY

Ragged lengths around the boundaries of tiles and splits, slots in any order, NaN in all scratch memory and in
every key and value that must not be read, three orders of threads each. Exits with 1 if the relative error of
a case exceeds 4e-3.
"""
import ctypes
import sys
import time

import torch

KV_HEADS, GROUP, HEAD_DIM, CAPACITY, SPLIT = 8, 2, 128, 1024, 256
WORST = 4e-3  # the output is rounded to bfloat16, three digits
CASES = ([1], [15, 16, 17], [255, 256, 257], [511, 512, 513, 2], [1023, 1], [32, 33, 31, 1000])
SCHEDULES = (1, 2, 3)


def poisoned(*shape):
    return torch.full(shape, float('nan'))


def relative_error(library, lengths, schedule):
    """Largest over the rows; infinite if anything is NaN."""
    generator = torch.Generator().manual_seed(sum(lengths))
    rows, slot_count = len(lengths), len(lengths) + 2
    q = torch.randn(rows, KV_HEADS * GROUP, HEAD_DIM, generator=generator).bfloat16()
    keys = poisoned(slot_count, KV_HEADS, CAPACITY, HEAD_DIM).bfloat16()
    values = keys.clone()
    slots = torch.randperm(slot_count, generator=generator)[:rows].int()
    for slot, length in zip(slots, lengths):
        for cache in (keys, values):
            cache[slot, :, :length] = torch.randn(KV_HEADS, length, HEAD_DIM, generator=generator).bfloat16()
    positions = torch.tensor([length - 1 for length in lengths], dtype=torch.int32)
    splits = (max(lengths) + SPLIT - 1) // SPLIT
    partial = poisoned(rows, KV_HEADS, splits, GROUP, HEAD_DIM)
    stats = poisoned(rows, KV_HEADS, splits, GROUP, 2)
    out = poisoned(rows, KV_HEADS * GROUP, HEAD_DIM).bfloat16()
    library.acoerEmuSeed(ctypes.c_ulong(schedule))
    tensors = (q, keys, values, slots, positions, partial, stats, out)
    library.acoerDecodeAttention(
        *(ctypes.c_void_p(tensor.data_ptr()) for tensor in tensors),
        rows, KV_HEADS, CAPACITY, splits, ctypes.c_float(HEAD_DIM**-0.5), None)
    worst = 0.0
    for row, length in enumerate(lengths):
        exact = torch.nn.functional.scaled_dot_product_attention(
            q[row].double().view(1, KV_HEADS, GROUP, HEAD_DIM),
            keys[slots[row], :, :length].double()[None],
            values[slots[row], :, :length].double()[None],
        ).reshape(KV_HEADS * GROUP, HEAD_DIM)
        error = ((out[row].double() - exact).norm() / exact.norm()).item()
        worst = max(worst, error) if error == error else float('inf')
    return worst


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    library = ctypes.CDLL(sys.argv[1])
    start = time.time()
    wrong = 0
    for lengths in CASES:
        for schedule in SCHEDULES:
            error = relative_error(library, lengths, schedule)
            wrong += not error <= WORST
            print(f'{lengths} schedule {schedule}: relative error {error:.2e}{"" if error <= WORST else "   WRONG"}')
    print(f'{wrong} of {len(CASES) * len(SCHEDULES)} wrong, {time.time() - start:.1f} s')
    sys.exit(1 if wrong else 0)


main()
