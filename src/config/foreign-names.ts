/**
 * Settings of others that have no counterpart here, by the reason: of TRL 1.13 and what it takes over from transformers
 * and PEFT, and the most common ones of other programs that train with GRPO. docs/from-trl.md lists them.
 */
type Lists = Readonly<Record<string, string>>;

const words = (text: string): string[] => text.trim().split(/\s+/);

/** Reason -> names. */
const TRL: Lists = {
  'the engine samples with the weights being trained, or servers that are started apart (docs/external-sampler.md)':
    'cache_implementation transformers_continuous_batching_config use_transformers_continuous_batching use_transformers_paged vllm_enable_sleep_mode vllm_group_port vllm_max_model_length vllm_model_impl vllm_structured_outputs_regex vllm_tensor_parallel_size',
  'a run uses one device':
    'accelerator_config average_tokens_across_devices ddp_backend ddp_broadcast_buffers ddp_bucket_cap_mb ddp_find_unused_parameters ddp_static_graph ddp_timeout device_map device_mesh distributed_config ds3_gather_for_generation eval_use_gather_object fsdp_config local_rank log_level_replica log_on_each_node max_memory megatron_config megatron_core offload_buffers offload_folder parallelism_config save_on_each_node tp_plan tp_size',
  'the engine has its own kernels, compiled ahead, and chooses them itself':
    'allow_all_kernels attn_implementation experts_implementation fusion_config kernel_config liger_kernel_config tf32 torch_compile torch_compile_backend torch_compile_mode use_kernels use_liger_kernel',
  'logits and the loss are in float32 whatever the dtype, in evaluations too':
    'bf16_full_eval cast_lm_head_to_fp32 fp16_full_eval',
  'the base is quantised by the engine when it is loaded (`quantization`)':
    'bnb_4bit_quant_storage gguf_file loftq_config quantization_config',
  'a new adapter is plain LoRA (or rsLoRA) of linear layers, with one rank and scale, begun as PEFT begins it: A drawn, B zero':
    'adapter_kwargs adapter_name alora_invocation_tokens alpha_pattern arrow_config auto_mapping base_model_name_or_path bias corda_config ensure_weight_tying eva_config fan_in_fan_out inference_mode init_lora_weights kasa_config layer_replication layers_pattern layers_to_transform lora_bias lora_ga_config lora_modules_to_save lora_target_parameters lora_task_type modules_to_save monteclora_config peft_type peft_version qalora_group_size rank_pattern runtime_config target_parameters task_type trainable_token_indices use_bdlora use_dora use_qalora velora_config',
  'rows are read once and kept in memory, in a random order that `seed` decides':
    'dataloader_drop_last dataloader_in_order dataloader_multiprocessing_context dataloader_num_workers dataloader_persistent_workers dataloader_pin_memory dataloader_prefetch_factor dataset_streaming ignore_data_skip length_column_name train_sampling_strategy',
  'a reward always sees every column of the row': 'label_names remove_unused_columns',
  'there is one turn and there are no tools': 'environment_factory max_tool_calling_iterations tools',
  'rewards are functions, not models': 'reward_processing_classes',
  'nothing is uploaded: upload final/ with the tools of the hub':
    'hub_always_push hub_model_id hub_private_repo hub_revision hub_strategy hub_token log_completions_hub_repo project push_to_hub trackio_bucket_id trackio_space_id trackio_static_space_id',
  'a model on the hub is read through the cache of the Python tools, with HF_HOME, HF_TOKEN, HF_HUB_OFFLINE and the proxies of the environment':
    'cache_dir force_download local_files_only proxies token tqdm_class',
  "a model is read as its folder has it: config.json and safetensors in Hugging Face's layout":
    'config disable_mmap generation_config ignore_mismatched_sizes key_mapping output_loading_info state_dict subfolder use_safetensors variant weights_only',
  'no code of a model is run': 'trust_remote_code',
  'AdamW, with the same settings for all that is trained': 'optim_args optim_target_modules optimizers',
  'the schedules have no parameters': 'lr_scheduler_kwargs',
  'there is no entropy bonus':
    'entropy_coef_delta entropy_coef_max entropy_coef_min entropy_target use_adaptive_entropy',
  'the reference of the KL term is always the base model': 'ref_model_mixup_alpha ref_model_sync_steps',
  'mixtures of experts are not supported': 'router_aux_loss_coef',
  'the loss is the policy loss alone': 'label_smoothing_factor neftune_noise_alpha',
  'automatic: a step that runs out of memory is split and repeated':
    'auto_find_batch_size torch_empty_cache_steps',
  'automatic: layers are recomputed unless their activations are small':
    'gradient_checkpointing_kwargs use_cache',
  'sequences are packed, nothing is padded': 'pad_to_multiple_of',
  'a run with the same seed gives the same numbers on the same machine': 'full_determinism',
  'every step is logged to metrics.jsonl, in full':
    'include_for_metrics include_num_input_tokens_seen log_multimodal logging_first_step logging_nan_inf_filter logging_strategy log_unique_prompts skip_memory_metrics',
  'progress is a block on a terminal and lines elsewhere; ACOER_DEBUG=1 shows the traces of errors':
    'debug disable_tqdm log_level',
  'a run always trains and evaluates; `acoer eval` evaluates alone': 'do_eval do_predict do_train',
  'evaluations answer problems and keep no tensors':
    'batch_eval_metrics eval_accumulation_steps eval_delay eval_do_concat_batches prediction_loss_only',
  'the best checkpoint has the highest accuracy, then the shortest thinking':
    'greater_is_better metric_for_best_model',
  'a checkpoint holds all that exact resuming needs; final/ holds the model alone':
    'enable_jit_checkpoint restore_callback_states_from_checkpoint save_only_model',
  'not used': 'ignore_bias_buffers',
};

/** Older names of TRL and transformers, which people still type. */
const OLDER: Lists = {
  'TensorBoard reads RUN/tensorboard': 'logging_dir',
  'a new run gets a new folder and never writes over another': 'overwrite_output_dir',
  'weights are always saved as safetensors': 'save_safetensors',
  'a model is read as its folder has it, without a copy': 'low_cpu_mem_usage',
  'the engine has its own kernels, compiled ahead, and chooses them itself': 'use_flash_attention_2',
  'a run uses one device': 'fsdp_min_num_params fsdp_transformer_layer_cls_to_wrap',
  'the engine samples with the weights being trained, or servers that are started apart (docs/external-sampler.md)':
    'vllm_device vllm_dtype vllm_max_model_len vllm_guided_decoding_regex',
};

/** By the program they belong to: Unsloth, LLaMA-Factory, verl, OpenRLHF, prime-rl, Axolotl, ms-swift. */
const OTHERS: Lists = {
  'metrics go to metrics.jsonl, TensorBoard and `sinks`: wandb, or your own':
    'wandb wandb_project wandb_run_name wandb_entity use_wandb wandb_name swanlab mlflow trackio comet project_name experiment_name logger',
  'the base is quantised by `quantization`, to nf4 or int8':
    'qlora quantization_bit quantization_method quantization_type load_in_fp8 fp8 quantize',
  'the engine samples with the weights being trained, or servers that are started apart (docs/external-sampler.md)':
    'fast_inference gpu_memory_utilization vllm_num_engines tensor_model_parallel_size enforce_eager inference_gpu_ids async_level max_async_level rollout vllm enable_prefix_caching',
  'a run uses one device':
    'nnodes n_gpus_per_node num_gpus num_nodes trainer_gpu_ids actor_num_nodes actor_num_gpus_per_node zero_stage tensor_parallel_size pipeline_parallel_size context_parallel_size sequence_parallel_size',
  'the advantage is that of GRPO (scaleRewards, advantageEpsilon)':
    'adv_estimator advantage_estimator algorithm',
  'there is no critic': 'critic critic_learning_rate critic_pretrain',
  'the engine has its own kernels, compiled ahead, and chooses them itself':
    'flash_attn flash_attention use_flash_attn attn_impl xformers unsloth use_unsloth',
  'automatic: layers are recomputed unless their activations are small':
    'use_gradient_checkpointing gradient_checkpointing_enable activation_checkpointing',
  'GRPO is what is trained; supervised fine-tuning is `acoer sft`':
    'stage rlhf_type rl finetuning_type train_type',
};

/** Every name with what it is listed under. */
const entriesOf = (lists: Lists): [name: string, of: string][] =>
  Object.entries(lists).flatMap(([of, names]) => words(names).map((name): [string, string] => [name, of]));

/** Names of TRL, transformers and PEFT without a counterpart, and why. */
export const TRL_ABSENT: ReadonlyMap<string, string> = new Map([...entriesOf(OLDER), ...entriesOf(TRL)]);

/** Names of other programs without a counterpart, and why. */
export const OTHER_ABSENT: ReadonlyMap<string, string> = new Map(entriesOf(OTHERS));

/** Setting of ours -> its names in other programs. */
const NAMES: Lists = {
  promptsPerStep: 'train_batch_size rollout_batch_size',
  numGenerations: 'n_samples_per_prompt rollouts_per_example group_size',
  maxCompletionLength: 'max_response_length generate_max_len max_new_tokens max_tokens',
  maxPromptLength: 'prompt_max_len max_prompt_len',
  beta: 'kl_coef init_kl_coef kl_loss_coef',
  epsilon: 'clip_ratio eps_clip clip_ratio_low',
  epsilonHigh: 'clip_ratio_high',
  learningRate: 'lr actor_learning_rate',
  numIterations: 'ppo_epochs',
  maxGradNorm: 'grad_clip max_norm',
  maxSteps: 'total_training_steps total_epochs num_episodes max_epochs epochs',
  evalSteps: 'test_freq',
  saveSteps: 'save_freq',
  dataset: 'train_files prompt_data',
  evalDataset: 'val_files',
  model: 'pretrain base_model model_name model_path',
  loraRank: 'lora_rank',
  columns: 'input_key label_key',
  reward: 'reward_function reward_fn custom_reward_function remote_rm_url',
};

/** Names of other programs for settings of ours. */
export const OTHER_NAMES: Readonly<Record<string, string>> = Object.fromEntries(entriesOf(NAMES));
