"""The least time that a piece of work can take: the larger of its bytes over the copy bandwidth and its FLOPs over
the matmul rate. The same formulas as src/plan/cost.ts, which has their reasons; a test compares the two.
"""


def linear_sizes(shape):
    """Inputs and outputs of a layer's seven linears."""
    hidden, intermediate, head = shape['hiddenSize'], shape['intermediateSize'], shape['headDim']
    q, kv = shape['numHeads'] * head, shape['numKvHeads'] * head
    return [(hidden, q), (hidden, kv), (hidden, kv), (q, hidden), (hidden, intermediate), (hidden, intermediate),
            (intermediate, hidden)]


def layer_parameters(shape):
    return shape['numLayers'] * sum(i * o for i, o in linear_sizes(shape))


def embedding_parameters(shape):
    return shape['vocabSize'] * shape['hiddenSize']


def norm_parameters(shape):
    return shape['numLayers'] * (2 * shape['hiddenSize'] + 2 * shape['headDim']) + shape['hiddenSize']


def lora_parameters(shape, rank):
    return shape['numLayers'] * sum(rank * (i + o) for i, o in linear_sizes(shape))


def kv_bytes_per_token(shape, element):
    return 2 * shape['numKvHeads'] * shape['headDim'] * shape['numLayers'] * element


def attention_flops_per_pair(shape):
    return 4 * shape['numHeads'] * shape['headDim'] * shape['numLayers']


def causal_pairs(tokens):
    return tokens * (tokens + 1) / 2


def decode_step(shape, rows, context, element, rank):
    """(FLOPs, bytes) of one step of `rows` sequences that see `context` tokens each."""
    weights = layer_parameters(shape) + embedding_parameters(shape)
    lora = lora_parameters(shape, rank)
    flops = rows * 2 * (weights + lora) + rows * context * attention_flops_per_pair(shape)
    read = (weights + norm_parameters(shape)) * element + rows * context * kv_bytes_per_token(shape, element) + 4 * lora
    return flops, read


def prefill(shape, tokens, element):
    flops = (2 * (tokens * layer_parameters(shape) + embedding_parameters(shape))
             + causal_pairs(tokens) * attention_flops_per_pair(shape))
    read = (layer_parameters(shape) + embedding_parameters(shape) + norm_parameters(shape)) * element
    return flops, read


def training(shape, sequences, prompt, completion, element, rank):
    """(FLOPs, bytes) of forward and backward over `sequences` of `prompt` and `completion` tokens."""
    length = prompt + completion
    tokens, head_tokens = sequences * length, sequences * completion
    pairs = sequences * causal_pairs(length)
    layers, head = layer_parameters(shape), embedding_parameters(shape)
    flops = (4 * tokens * layers + 3.5 * pairs * attention_flops_per_pair(shape) + 4 * head_tokens * head
             + 6 * tokens * lora_parameters(shape, rank))
    return flops, (2 * layers + 2 * head) * element


def seconds(work, ceilings):
    flops, moved = work
    return max(moved / ceilings['copyBytesPerSecond'], flops / ceilings['matmulFlopsPerSecond'])


def rollout_seconds(shape, rows, prompt, completion, element, rank, ceilings):
    """One prompt prefilled once, `rows` samples of `completion` tokens; the first token comes from the prefill."""
    total = seconds(prefill(shape, prompt, element), ceilings)
    for step in range(1, completion):
        total += seconds(decode_step(shape, rows, prompt + step, element, rank), ceilings)
    return total
