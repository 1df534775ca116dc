"""The same work with transformers (generate) and PEFT (a training step), where those packages are installed.

    peers.py [--device cuda|cpu]

Random weights at Qwen3-1.7B's shape, bfloat16, LoRA of rank 16 on all seven linears. After each measurement a line has
all of them so far as JSON (`runs`); `notRun` says why there are none.
"""
import argparse
import importlib.util
import json
import statistics
import sys
import time

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument('--device', default='cuda')
args = parser.parse_args()
missing = [name for name in ('torch', 'transformers', 'peft') if importlib.util.find_spec(name) is None]
if missing:
    print(json.dumps({'notRun': f"not installed for this python3: {', '.join(missing)}"}))
    sys.exit(0)

import torch  # noqa: E402
import transformers  # noqa: E402
import peft  # noqa: E402

device = torch.device(args.device)
gpu = device.type != 'cpu'
SIZES = dict(vocab_size=151936, hidden_size=2048, intermediate_size=6144, num_hidden_layers=28, num_attention_heads=16,
             num_key_value_heads=8, head_dim=128)
TINY = dict(vocab_size=512, hidden_size=192, intermediate_size=384, num_hidden_layers=3, num_attention_heads=6,
            num_key_value_heads=2, head_dim=64)
TARGETS = ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj']
REPEATS = 3 if gpu else 1


def synchronize():
    if gpu:
        torch.cuda.synchronize(device)


def timed(work):
    synchronize()
    start = time.perf_counter()
    work()
    synchronize()
    return time.perf_counter() - start


def make_model():
    config = transformers.Qwen3Config(**(SIZES if gpu else TINY), tie_word_embeddings=True)
    torch.manual_seed(1)
    with torch.device(device):
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    adapter = peft.LoraConfig(r=16, lora_alpha=32, target_modules=TARGETS)
    return peft.get_peft_model(model, adapter)


def decode(model, rows, context):
    """Seconds of a decode step: the time of many new tokens less that of one."""
    steps = 32 if gpu else 4
    ids = torch.randint(0, model.config.vocab_size, (rows, context - steps // 2), device=device)
    options = dict(do_sample=True, use_cache=True, pad_token_id=0, attention_mask=torch.ones_like(ids))

    def generate(count):
        with torch.no_grad():
            model.generate(input_ids=ids, min_new_tokens=count, max_new_tokens=count, **options)

    generate(2)
    each = []
    for _ in range(REPEATS):
        first = timed(lambda: generate(1))
        each.append((timed(lambda: generate(steps + 1)) - first) / steps)
    return statistics.median(each)


def train(model, sequences, length):
    """Seconds of forward and backward, with gradient checkpointing as the reference runs have it."""
    ids = torch.randint(0, model.config.vocab_size, (sequences, length), device=device)
    model.train()
    model.enable_input_require_grads()
    model.gradient_checkpointing_enable()

    def step():
        model(input_ids=ids, labels=ids, use_cache=False).loss.backward()
        model.zero_grad()

    step()
    return statistics.median(timed(step) for _ in range(REPEATS))


def add(run):
    runs.append(run)
    versions = {'torch': torch.__version__, 'transformers': transformers.__version__, 'peft': peft.__version__}
    print(json.dumps({'versions': versions, 'runs': runs}), flush=True)


model = make_model()
runs = []
for rows, context in ((16, 1024), (96, 1024)) if gpu else ((2, 16),):
    try:
        add({'kind': 'decode', 'name': 'transformers generate with a PEFT adapter', 'rows': rows, 'context': context,
             'seconds': decode(model, rows, context)})
    except torch.OutOfMemoryError:
        print(f'decode {rows} x {context}: out of memory')
sequences, prompt, completion = (4, 150, 1024) if gpu else (2, 8, 16)
try:
    add({'kind': 'train', 'name': 'PEFT forward and backward', 'sequences': sequences, 'promptTokens': prompt,
         'completionTokens': completion, 'seconds': train(model, sequences, prompt + completion)})
except torch.OutOfMemoryError:
    print('training: out of memory')
