/**
 * The tiny model's tokenizer and configuration as Hugging Face files: byte-level BPE without merges, so one
 * character is one token, plus added tokens that follow the base vocabulary (Qwen's layout; the Rust library
 * renumbers added tokens that do not).
 */
const CHARACTERS = "\n !'()*+,-./0123456789:=?\\abcdefghijklmnopqrstuvwxyz{}";

/** `special` ones are dropped when decoding with skipSpecial; the others are part of the text. */
const ADDED_TOKENS: readonly { content: string; special: boolean }[] = [
  { content: '<|endoftext|>', special: true },
  { content: '<|im_start|>', special: true },
  { content: '<|im_end|>', special: true },
  { content: '<think>', special: false },
  { content: '</think>', special: false },
  { content: 'user', special: false },
  { content: 'assistant', special: false },
  { content: '\\boxed', special: false },
];

/** Embedding rows: the vocabulary padded to a multiple of 64. */
export const PADDED_VOCABULARY = 64;

/** GPT-2's printable stand-ins for the bytes used here. */
const byteName = (character: string): string => ({ '\n': 'Ċ', ' ': 'Ġ' })[character] ?? character;

const addedId = (content: string): number =>
  CHARACTERS.length + ADDED_TOKENS.findIndex((token) => token.content === content);

const byteLevel = { type: 'ByteLevel', add_prefix_space: false, trim_offsets: false, use_regex: false };

export function tokenizerJson(): object {
  return {
    version: '1.0',
    truncation: null,
    padding: null,
    added_tokens: ADDED_TOKENS.map(({ content, special }) => ({
      id: addedId(content),
      content,
      single_word: false,
      lstrip: false,
      rstrip: false,
      normalized: false,
      special,
    })),
    normalizer: null,
    pre_tokenizer: byteLevel,
    post_processor: null,
    decoder: byteLevel,
    model: {
      type: 'BPE',
      dropout: null,
      unk_token: null,
      continuing_subword_prefix: null,
      end_of_word_suffix: null,
      fuse_unk: false,
      byte_fallback: false,
      ignore_merges: false,
      vocab: Object.fromEntries([...CHARACTERS].map((character, id) => [byteName(character), id])),
      merges: [],
    },
  };
}

/**
 * Qwen3's turn markers; with thinking off an empty think block opens the answer, as Qwen3's template does.
 */
const CHAT_TEMPLATE = [
  '{%- for message in messages %}',
  "{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}",
  '{%- endfor %}',
  '{%- if add_generation_prompt %}',
  "{{- '<|im_start|>assistant\\n' }}",
  '{%- if enable_thinking is defined and enable_thinking is false %}',
  "{{- '<think>\\n\\n</think>\\n\\n' }}",
  '{%- endif %}',
  '{%- endif %}',
].join('\n');

export function tokenizerConfig(): object {
  return {
    add_bos_token: false,
    add_prefix_space: false,
    added_tokens_decoder: Object.fromEntries(
      ADDED_TOKENS.map(({ content, special }) => [
        String(addedId(content)),
        { content, lstrip: false, normalized: false, rstrip: false, single_word: false, special },
      ]),
    ),
    bos_token: null,
    chat_template: CHAT_TEMPLATE,
    clean_up_tokenization_spaces: false,
    eos_token: '<|im_end|>',
    errors: 'replace',
    model_max_length: 1024,
    pad_token: '<|endoftext|>',
    split_special_tokens: false,
    tokenizer_class: 'PreTrainedTokenizerFast',
    unk_token: null,
  };
}

export function generationConfig(): object {
  return {
    bos_token_id: addedId('<|endoftext|>'),
    do_sample: true,
    eos_token_id: [addedId('<|im_end|>'), addedId('<|endoftext|>')],
    pad_token_id: addedId('<|endoftext|>'),
    temperature: 1.0,
  };
}

export const TINY_SHAPE = {
  hiddenSize: 96,
  numLayers: 3,
  numHeads: 4,
  numKvHeads: 2,
  headDim: 32,
  intermediateSize: 256,
} as const;

export function modelConfig(): object {
  return {
    architectures: ['Qwen3ForCausalLM'],
    attention_bias: false,
    attention_dropout: 0.0,
    bos_token_id: addedId('<|endoftext|>'),
    eos_token_id: addedId('<|im_end|>'),
    head_dim: TINY_SHAPE.headDim,
    hidden_act: 'silu',
    hidden_size: TINY_SHAPE.hiddenSize,
    initializer_range: 0.02,
    intermediate_size: TINY_SHAPE.intermediateSize,
    max_position_embeddings: 1024,
    max_window_layers: TINY_SHAPE.numLayers,
    model_type: 'qwen3',
    num_attention_heads: TINY_SHAPE.numHeads,
    num_hidden_layers: TINY_SHAPE.numLayers,
    num_key_value_heads: TINY_SHAPE.numKvHeads,
    rms_norm_eps: 1e-6,
    rope_scaling: null,
    rope_theta: 10000.0,
    sliding_window: null,
    tie_word_embeddings: true,
    torch_dtype: 'float32',
    use_cache: true,
    use_sliding_window: false,
    vocab_size: PADDED_VOCABULARY,
  };
}
