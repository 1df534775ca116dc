"""Random bf16 weights of Qwen3-1.7B's shape for llama.cpp. Usage: make_gguf.py OUT"""

import sys

import gguf
import numpy as np

from gguf import GGMLQuantizationType, GGUFWriter

HIDDEN, HEADS, KV_HEADS, HEAD, INNER, VOCABULARY, LAYERS = 2048, 16, 8, 128, 6144, 151_936, 28
BF16_FILE = 32

writer = GGUFWriter(sys.argv[1], "qwen3")
writer.add_name("random")
writer.add_context_length(40_960)
writer.add_embedding_length(HIDDEN)
writer.add_block_count(LAYERS)
writer.add_feed_forward_length(INNER)
writer.add_head_count(HEADS)
writer.add_head_count_kv(KV_HEADS)
writer.add_key_length(HEAD)
writer.add_value_length(HEAD)
writer.add_rope_freq_base(1e6)
writer.add_layer_norm_rms_eps(1e-6)
writer.add_file_type(BF16_FILE)
writer.add_vocab_size(VOCABULARY)
writer.add_tokenizer_model("gpt2")
writer.add_tokenizer_pre("qwen2")
writer.add_token_list([f"t{i}" for i in range(VOCABULARY - 1)] + ["<|im_end|>"])
writer.add_token_types([1] * (VOCABULARY - 1) + [3])
writer.add_token_merges(["t 1"])
writer.add_eos_token_id(VOCABULARY - 1)
writer.add_bos_token_id(VOCABULARY - 1)
writer.add_add_bos_token(False)

block = (np.random.default_rng(0).standard_normal(1 << 20) * 0.02).astype(np.float32)
made = {}


def add(name, *shape):
    """Matrices of one shape share their numbers."""
    if shape not in made:
        count = int(np.prod(shape))
        numbers = np.resize(block, count).reshape(shape)
        made[shape] = gguf.quants.quantize(numbers, GGMLQuantizationType.BF16)
    writer.add_tensor(name, made[shape], raw_dtype=GGMLQuantizationType.BF16)


def add_ones(name, count):
    writer.add_tensor(name, np.ones(count, np.float32))


add("token_embd.weight", VOCABULARY, HIDDEN)
for layer in range(LAYERS):
    prefix = f"blk.{layer}."
    for norm, width in [("attn_norm", HIDDEN), ("ffn_norm", HIDDEN), ("attn_q_norm", HEAD), ("attn_k_norm", HEAD)]:
        add_ones(f"{prefix}{norm}.weight", width)
    add(f"{prefix}attn_q.weight", HEADS * HEAD, HIDDEN)
    add(f"{prefix}attn_k.weight", KV_HEADS * HEAD, HIDDEN)
    add(f"{prefix}attn_v.weight", KV_HEADS * HEAD, HIDDEN)
    add(f"{prefix}attn_output.weight", HIDDEN, HEADS * HEAD)
    add(f"{prefix}ffn_gate.weight", INNER, HIDDEN)
    add(f"{prefix}ffn_up.weight", INNER, HIDDEN)
    add(f"{prefix}ffn_down.weight", HIDDEN, INNER)
add_ones("output_norm.weight", HIDDEN)
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
