"""A bf16 model for llama.cpp. Usage: make_gguf.py OUT [MODEL_FOLDER]

Without a folder: random weights of Qwen3-1.7B's shape. With one: a Llama with a tied head in Hugging Face layout. Its
tokens have no text, since the peers are given and give ids.
"""

import json
import sys
from pathlib import Path

import gguf
import numpy as np
from common import SHAPE
from gguf import GGMLQuantizationType, GGUFWriter
from safetensors.torch import load_file

BF16_FILE = 32
QWEN3_1_7B = {**SHAPE, "model_type": "qwen3", "max_position_embeddings": 40_960, "rms_norm_eps": 1e-6}


class Random:
    """Matrices of one shape share their numbers; norms are ones."""

    def __init__(self):
        self.block = (np.random.default_rng(0).standard_normal(1 << 20) * 0.02).astype(np.float32)
        self.made = {}

    def matrix(self, _, *shape):
        if shape not in self.made:
            self.made[shape] = bfloat16(np.resize(self.block, int(np.prod(shape))).reshape(shape))
        return self.made[shape]

    def norm(self, _, width):
        return np.ones(width, np.float32)


class Stored:
    def __init__(self, folder):
        tensors = load_file(folder / "model.safetensors")
        self.tensors = {name: tensor.float().numpy() for name, tensor in tensors.items()}

    def matrix(self, name, *shape):
        found = self.tensors[name]
        assert found.shape == shape, (name, found.shape, shape)
        return bfloat16(found)

    def norm(self, name, width):
        found = self.tensors[name]
        assert found.shape == (width,), (name, found.shape, width)
        return found


def bfloat16(numbers):
    return gguf.quants.quantize(numbers, GGMLQuantizationType.BF16)


def interleaved(queries, heads):
    """llama.cpp's Llama rotates neighbours where Hugging Face's rotates halves of a head."""
    rows, columns = queries.shape
    return queries.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)


def add_settings(writer, config, head):
    vocabulary = config["vocab_size"]
    writer.add_name("peer")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(head)
    writer.add_value_length(head)
    writer.add_rope_dimension_count(head)
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_file_type(BF16_FILE)
    writer.add_vocab_size(vocabulary)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list([f"t{i}" for i in range(vocabulary - 1)] + ["<|im_end|>"])
    writer.add_token_types([1] * (vocabulary - 1) + [3])
    writer.add_token_merges(["t 1"])
    writer.add_eos_token_id(vocabulary - 1)
    writer.add_bos_token_id(vocabulary - 1)
    writer.add_add_bos_token(False)


def add_tensors(writer, config, head, weights):
    llama = config["model_type"] == "llama"
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    heads, key_heads = config["num_attention_heads"], config["num_key_value_heads"]

    def add(name, source, *shape, rotated_heads=None):
        numbers = weights.matrix(f"model.{source}.weight", *shape)
        if llama and rotated_heads:
            numbers = interleaved(numbers, rotated_heads)
        writer.add_tensor(f"{name}.weight", numbers, raw_dtype=GGMLQuantizationType.BF16)

    def add_norm(name, source, width):
        writer.add_tensor(f"{name}.weight", weights.norm(f"model.{source}.weight", width))

    add("token_embd", "embed_tokens", config["vocab_size"], hidden)
    for layer in range(config["num_hidden_layers"]):
        to, at = f"blk.{layer}.", f"layers.{layer}."
        add_norm(f"{to}attn_norm", f"{at}input_layernorm", hidden)
        add_norm(f"{to}ffn_norm", f"{at}post_attention_layernorm", hidden)
        if not llama:
            add_norm(f"{to}attn_q_norm", f"{at}self_attn.q_norm", head)
            add_norm(f"{to}attn_k_norm", f"{at}self_attn.k_norm", head)
        add(f"{to}attn_q", f"{at}self_attn.q_proj", heads * head, hidden, rotated_heads=heads)
        add(f"{to}attn_k", f"{at}self_attn.k_proj", key_heads * head, hidden, rotated_heads=key_heads)
        add(f"{to}attn_v", f"{at}self_attn.v_proj", key_heads * head, hidden)
        add(f"{to}attn_output", f"{at}self_attn.o_proj", hidden, heads * head)
        add(f"{to}ffn_gate", f"{at}mlp.gate_proj", inner, hidden)
        add(f"{to}ffn_up", f"{at}mlp.up_proj", inner, hidden)
        add(f"{to}ffn_down", f"{at}mlp.down_proj", hidden, inner)
    add_norm("output_norm", "norm", hidden)


def stored_config(folder):
    config = json.loads((folder / "config.json").read_text())
    if config["model_type"] != "llama" or not config.get("tie_word_embeddings"):
        sys.exit("make_gguf.py: MODEL_FOLDER must hold a Llama with a tied head.")
    return {"rope_theta": (config.get("rope_parameters") or {}).get("rope_theta", 10_000.0), **config}


def main():
    folder = Path(sys.argv[2]) if len(sys.argv) > 2 else None
    config = QWEN3_1_7B if folder is None else stored_config(folder)
    weights = Random() if folder is None else Stored(folder)
    head = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    writer = GGUFWriter(sys.argv[1], config["model_type"])
    add_settings(writer, config, head)
    add_tensors(writer, config, head, weights)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


main()
