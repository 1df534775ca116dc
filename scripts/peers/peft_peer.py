"""PEFT as TRL runs it: bf16 base, fp32 LoRA of rank 16, autocast. Usage: peft_peer.py THREADS CHECKPOINTING(0|1)"""

import sys

import torch
from common import answer, forget_peak, random_ids, random_model, resident_bytes, seconds_of
from peft import LoraConfig, get_peft_model
from trl.trainer.utils import selective_log_softmax

torch.set_num_threads(int(sys.argv[1]))
TARGETS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
config = LoraConfig(r=16, lora_alpha=32, lora_dropout=0.0, target_modules=TARGETS)
model = get_peft_model(random_model(), config).train()
if sys.argv[2] == "1":
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    model.enable_input_require_grads()
loaded = resident_bytes()


def train(tokens):
    ids = random_ids(1, tokens + 1)
    mask = torch.ones_like(ids)
    advantages = torch.randn(1, tokens)

    def work():
        with torch.autocast("cpu", torch.bfloat16):
            out = model(input_ids=ids, attention_mask=mask, logits_to_keep=tokens + 1, use_cache=False)
            logprobs = selective_log_softmax(out.logits[:, :-1, :], ids[:, 1:])
            loss = -(torch.exp(logprobs - logprobs.detach()) * advantages).mean()
        del out
        loss.backward()

    model.zero_grad(set_to_none=True)
    forget_peak()
    seconds = seconds_of(work)
    return {"seconds": seconds, "bytes": resident_bytes("VmHWM") - loaded}


answer({"train": train})
