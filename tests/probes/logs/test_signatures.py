"""Messages of engines and libraries, each in the form in which its source writes it, and their kind."""

from __future__ import annotations

import pytest
from deployment import MATCHER, diagnosed

from canserve.rules.failures import KINDS

MESSAGES = {
    "weights": [
        "llama_model_load: error loading model: check_tensor_dims: tensor 'token_embd.weight' not found",
        "llama_model_load: error loading model: create_tensor: tensor 'blk.0.attn_qkv.weight' not found",
        "llama_model_load: error loading model: done_getting_tensors: wrong number of tensors; expected 149, got 147",
        "error loading model: llama.cpp: tensor 'tok_embeddings.weight' is missing from model",
        "llama_model_load: error loading model: check_tensor_dims: tensor 'output.weight' has wrong shape; expected  4096, 32000, got  4096, 32001,     1,     1",
        "AssertionError: Tried to load weights of size torch.Size([3096576, 1])to a parameter of size torch.Size([5376, 1152])",
        "AssertionError: Attempted to load weight (torch.Size([3600])) into parameter (torch.Size([3584]))",
        "ValueError: There is no module or parameter named 'lm_head.qweight' in Qwen3ForCausalLM",
        "RuntimeError: start (0) + length (1536) exceeds dimension size (1280).",
        "OSError: Unable to load weights from pytorch checkpoint file",
        "huggingface_hub.errors.GatedRepoError: 401 Client Error. Access to model meta-llama/Llama-3.1-8B is restricted.",
        "OSError: /models/foo does not appear to have a file named pytorch_model.bin, model.safetensors, tf_model.h5",
        "FileNotFoundError: [Errno 2] No such file or directory: '/models/x/model-00003-of-00007.safetensors'",
        "gguf_init_from_file: invalid magic characters 'vers'",
        "llama_model_load: error loading model: tensor 'blk.12.ffn_up.weight' data is not within the file bounds, model is corrupted or incomplete",
        "RuntimeError: Cannot find any model weights with `/models/x`",
    ],
    "tokenizer-template-parser": [
        "AttributeError: 'MistralTokenizer' object has no attribute 'convert_tokens_to_ids'. Did you mean: 'convert_tokens_to_string'?",
        "RuntimeError: Failed to apply PixtralProcessor on data={'text': '[IMG]'} with kwargs={}",
        "RuntimeError: Failed to load the tokenizer. If you are using a LLaMA-based model, use 'hf-internal-testing/llama-tokenizer' instead of the original tokenizer.",
        "Exception: data did not match any variant of untagged enum ModelWrapper at line 757443 column 3",
        "AttributeError: 'CachedQwen2Tokenizer' object has no attribute 'all_special_tokens_extended'",
        "ValueError: Couldn't instantiate the backend tokenizer from one of: (1) a `tokenizers` library serialization file",
        "llama_model_load: error loading model vocabulary: unknown pre-tokenizer type: 'deepseek-r1-qwen'",
        "KeyError: 'invalid tool call parser: qwen3 (chose from { hermes,llama3_json })'",
        "RuntimeError: Hermes 2 Pro Tool parser could not locate tool call start/end tokens in the tokenizer!",
        "RuntimeError: DeepSeek R1 reasoning parser could not locate think start/end tokens in the tokenizer!",
        "jinja2.exceptions.TemplateError: Conversation roles must alternate user/assistant/user/assistant/...",
        "ValueError: Cannot use chat template functions because tokenizer.chat_template is not set and no template argument was passed!",
        "OSError: Can't load image processor for '/models/x'. If you were trying to load it from 'https://huggingface.co/models'",
        "TypeError: Invalid type of HuggingFace processor. Expected type: <class 'transformers.models.qwen2_vl.processing_qwen2_vl.Qwen2VLProcessor'>, but found type: <class 'transformers.PreTrainedTokenizerFast'>",
        "vllm serve: error: argument --reasoning-parser: invalid choice: 'minimax_m2' (choose from 'deepseek_r1', 'granite', 'qwen3')",
        "KeyError: \"Reasoning parser 'glm47' not found. Available parsers: deepseek_r1, qwen3\"",
        "ImportError: mistral_common is not installed. Please install it with `pip install mistral-common`",
        "Template supports tool calls but does not natively describe tools.",
        "terminate called after throwing an instance of 'std::runtime_error' what():  this custom template is not supported",
    ],
    "gpu-code-arch": [
        "RuntimeError: [FP4 gemm Runner] Failed to run cutlass FP4 gemm on sm120. Error: Error Internal",
        "This kernel only supports sm120.",
        "ERROR : Arch conditional MMA instruction used without targeting appropriate compute capability. Aborting.",
        "RuntimeError: CUDA error: no kernel image is available for execution on the device",
        "NVIDIA GB10 with CUDA capability sm_121 is not compatible with the current PyTorch installation.",
        "ImportError: Failed to load sgl_kernel: could not load any common_ops library for sm121",
        "triton.runtime.errors.PTXASError: PTXAS error: Internal Triton PTX codegen error",
        "RuntimeError: Ninja build failed. Ninja output: nvcc fatal   : Unsupported gpu architecture 'compute_121a'",
        "NotImplementedError: FlashInfer kernels unavailable for ModelOptNvFp4FusedMoE on current platform",
        "RuntimeError: FlashMLA is only supported on Hopper devices.",
        "rocBLAS error: Cannot read /opt/rocm/lib/rocblas/library/TensileLibrary.dat: No such file or directory for GPU arch : gfx1151",
        "torch._inductor.exc.InductorError: RuntimeError: Failed to find C compiler. Please specify via CC environment variable.",
        "fatal error: cuda_runtime.h: No such file or directory",
        "ggml_cuda_compute_forward: MUL_MAT failed: CUDA error: no kernel image is available for execution on the device",
        "RuntimeError: DeepGEMM is not supported on this GPU",
        "CUDA error: the provided PTX was compiled with an unsupported toolchain.",
    ],
    "quantisation-vs-gpu": [
        "RuntimeError: ('Quantization scheme is not supported for ', 'the current GPU. Min capability: 75. ', 'Current capability: 70.')",
        "triton.compiler.errors.CompilationError: type fp8e4nv not supported in this architecture. The supported fp8 dtypes are ('fp8e4b15', 'fp8e5')",
        "ValueError: Unknown quantization method: mxfp4. Must be one of ['aqlm', 'awq'].",
        "ValueError: mxfp4 quantization is currently not supported in this version",
        "ValueError: Quantization method specified in the model config (fp8) does not match the quantization method specified in the `quantization` argument (awq).",
        "ValueError: Found unknown quantization type modelopt_mixed",
        "Currently supported kv cache quantization is num_bits=8, type=float, however received num_bits=4, type=float",
        "ValueError: Selected backend AttentionBackendEnum.FLASH_ATTN is not valid for this configuration. Reason: ['kv_cache_dtype not supported']",
        "ValueError: type fp8e5 not supported in this architecture",
        "NotImplementedError: No NvFp4 MoE backend supports the deployment configuration.",
        "ValueError: torch.bfloat16 is not supported for quantization method gptq. Supported dtypes: [torch.float16]",
        "llama_model_load: error loading model: tensor 'blk.0.ffn_down_exps.weight' has invalid ggml type 39 (NONE)",
        "ValueError: Marlin does not support weight_bits = uint3b4. Only types = [ScalarType.uint4b8] are supported",
        "RuntimeError: FlashAttention only supports Ampere GPUs or newer.",
    ],
    "parallel-layout": [
        "ValueError: Total number of attention heads (40) must be divisible by tensor parallel size (3).",
        "AssertionError: 151936 is not divisible by 6",
        "ValueError: Weight input_size_per_partition = 10944 is not divisible by min_thread_k = 128. Consider reducing tensor_parallel_size or running with --quantization gptq.",
        "ValueError: The input size is not aligned with the quantized weight shape. This can be caused by too large tensor parallel size.",
        "ValueError: World size (4) is larger than the number of available GPUs (2) in this node. If this is intentional and you are using: - ray",
        "torch.AcceleratorError: CUDA error: invalid device ordinal",
        "AssertionError: Expert parallel size should be 1 when tensor parallel size is larger",
        "NotImplementedError: Pipeline parallelism is not supported for this model. Supported models implement the `SupportsPP` interface.",
        "ValueError: tp_size (16) must be divisible by dp_size (3)",
        "AssertionError: num_attention_heads 28 must be divisible by tp_size 8",
    ],
    "memory": [
        "ValueError: To serve at least one request with the models's max seq len (131072), (16.00 GiB KV cache is needed, which is larger than the available KV cache memory (11.68 GiB).",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 594.00 MiB. GPU 0 has a total capacity of 23.57 GiB",
        "ValueError: Free memory on device (21.1/23.6 GiB) on startup is less than desired GPU memory utilization (0.9, 21.2 GiB).",
        "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.",
        "RuntimeError: CUDA error: out of memory",
        "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 19337.60 MiB on device 0: cudaMalloc failed: out of memory",
        "llama_init_from_model: failed to initialize the context: failed to allocate compute pp buffers",
        "slurmstepd: error: Detected 1 oom_kill event in StepId=123.batch",
        "ValueError: The decoder prompt (length 40000) is longer than the maximum model length of 32768.",
        "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB",
        "AssertionError: Error in memory profiling. Initial free memory 20.1 GiB, current free memory 20.5 GiB.",
        "[TensorRT-LLM][ERROR] CUDA runtime error in ::cudaMallocAsync(ptr, n, mMemPool->getPool(), mCudaStream->get()): out of memory",
        "RuntimeError: Executor creation failed due to insufficient GPU memory.",
        "Executor creation failed due to insufficient GPU memory",
        "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.",
        "vk::Device::allocateMemory: ErrorOutOfDeviceMemory",
        "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 147456, Hardware limit: 101376.",
        "Engine process died: exitcode: -9",
    ],
    "driver-cuda-libc-cpu": [
        "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.6, please update your driver to a newer version, or use an earlier cuda container: unknown.",
        "ImportError: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.34' not found",
        "ImportError: libcudart.so.13: cannot open shared object file: No such file or directory",
        "ImportError: /usr/lib/x86_64-linux-gnu/libstdc++.so.6: version `GLIBCXX_3.4.32' not found",
        "exec /usr/bin/python3: exec format error",
        "ImportError: /venv/flash_attn_2_cuda.so: undefined symbol: _ZN3c105ErrorC2ENS_14SourceLocationESs",
        "RuntimeError: CUDA driver version is insufficient for CUDA runtime version",
        "Illegal instruction (core dumped)",
        "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 803: system has unsupported display driver / cuda driver combination",
        "OSError: libmpi.so.40: cannot open shared object file: No such file or directory",
    ],
    "multi-node-and-collectives": [
        "NCCL WARN socketPollConnect: Connect to 10.0.0.4<56849> returned 113(No route to host) errno 115(Operation now in progress)",
        "socket.c:485 NCCL WARN socketStartConnect: Connect to 10.0.0.82<38455> failed : Software caused connection abort",
        "NCCL WARN Error while attaching to shared memory segment /dev/shm/nccl- (size 192814336), error: No such file or directory (2)",
        "Bootstrap : no socket interface found",
        "ValueError: Ray does not allocate any GPUs on the driver node. Consider adjusting the Ray placement group or running the driver on a GPU node.",
        "(autoscaler +7s) Error: No available node types can fulfill resource request {'node:1.2.3.4': 0.001, 'GPU': 1.0}.",
        "RuntimeError: Every node should have a unique IP address. Got 2 nodes with node ids [...] and 1 unique IP addresses",
        "torch.distributed.DistNetworkError: The client socket has timed out after 600000ms while trying to connect to (10.0.0.1, 29500).",
        "[E ProcessGroupNCCL.cpp:475] [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=3856, OpType=ALLREDUCE) ran for 1800268 milliseconds before timing out.",
        "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 1/2 clients joined.",
        "RuntimeError: NCCL error: remote process exited or there was a network error",
        "NCCL WARN NET/IB : Got async event : port error",
        "NCCL WARN Cuda failure 'peer access is not supported between these two devices'",
        "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.2]:33423",
        "NCCL WARN Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 1000",
        "RuntimeError: No CUDA-capable NVSHMEM transport: nvshmem_init failed",
        "RuntimeError: DeepEP error: timeout (dispatch CPU)",
        "zmq.error.ZMQError: Address already in use (addr='tcp://*:5557')",
        "AssertionError: RayExecutor: please make sure all nodes have the same ray version",
        "ConnectionError: ray client connection timeout",
        "RuntimeError: CUDA error: system not yet initialized",
        "INFO: Waiting for 1 local, 0 remote core engine proc(s) to start.",
    ],
    "config-model_type": [
        "ValueError: The checkpoint you are trying to load has model type `glm4_moe` but Transformers does not recognize this architecture.",
        "KeyError: 'qwen3_next'",
        "AttributeError: 'Qwen2Config' object has no attribute 'rope_theta'",
        "ValueError: Unrecognized model in /models/x. Should have a `model_type` key in its config.json",
        "ValueError: 'aimv2' is already used by a Transformers config, pick another name.",
        "ImportError: cannot import name 'Gemma3Config' from 'transformers'",
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig Value error, The checkpoint you are trying to load has model type `mistral3` but Transformers does not recognize this architecture.",
        "OSError: /models/x does not appear to have a file named config.json.",
        "ValueError: The repository /models/x contains custom code which must be executed to correctly load the model. Please pass the argument `trust_remote_code=True`",
        "AttributeError: 'dict' object has no attribute 'model_type'",
        "RuntimeError: Failed to load the model config. If the model is a custom model not yet available in the HuggingFace transformers library",
        "AssertionError: rope_scaling type must be in config, found {'rope_type': 'llama3'}",
        "TypeError: Qwen3Config.__init__() got an unexpected keyword argument 'layer_types'",
    ],
    "architecture-not-in-registry": [
        "ValueError: Model architectures ['Glm4MoeForCausalLM'] are not supported for now. Supported architectures: dict_keys(['AquilaModel'])",
        "ValueError: Model architectures ['Qwen3NextForCausalLM'] failed to be inspected. Please check the logs for more details.",
        "ValueError: Unsupported architectures: MiniMaxM2ForCausalLM. Supported list: ['LlamaForCausalLM']",
        "llama_model_load: error loading model: error loading model architecture: unknown model architecture: 'qwen3next'",
        "ValueError: XyzForCausalLM has no vLLM implementation and the Transformers implementation is not compatible with vLLM.",
        "ValueError: Unknown architecture for AutoModelForCausalLM: Gemma3ForConditionalGeneration",
        "RuntimeError: Unable to load model: architecture FooForCausalLM not found in registry",
        "ValueError: Model class 'Phi4MM' not found",
        'Error: unable to load model: unsupported model architecture "gptoss"',
        "ValueError: No model architecture found for GGUF architecture 'step35'",
        "ValueError: Model architecture MllamaForConditionalGeneration was supported in vLLM until v0.10.2, and is not supported anymore.",
    ],
    "image-probing-and-logs": [
        "ImportError: libcuda.so.1: cannot open shared object file: No such file or directory",
        "RuntimeError: Failed to infer device type, please set the environment variable `VLLM_LOGGING_LEVEL=DEBUG`",
        "vllm: error: unrecognized arguments: serve",
        "ModuleNotFoundError: No module named 'vllm._C'",
        "RuntimeError: Found no NVIDIA driver on your system.",
        'docker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]].',
        "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause.",
        "0.11.1.dev0+gb8b302cde.d20251203",
    ],
    "served-but-wrong": [
        "RuntimeError: probability tensor contains either `inf`, `nan` or element < 0",
        '"content": "!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!"',
        '"reasoning_content": null, "content": "Okay, let me think... </think> The answer is 4"',
        "NCCL INFO Channel 00/0 : 0[0] -> 1[0] [receive] via NET/Socket/0",
    ],
}


@pytest.mark.parametrize(
    ("kind", "message"), [(kind, message) for kind, messages in MESSAGES.items() for message in messages]
)
def test_a_message_leads_to_its_kind(kind: str, message: str) -> None:
    assert diagnosed(log=message).kind == kind


HARMLESS = [
    "Ignore import error when loading sglang.srt.models.grok: No module named 'vllm'",
    "FutureWarning: `torch.distributed.reduce_op` is deprecated",
    "Using max model len 32768",
    "Loading safetensors checkpoint shards: 100% Completed | 4/4",
    "Capturing CUDA graph shapes: 100%|##########| 67/67",
    "NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>",
    "GPU KV cache size: 131,072 tokens",
    "Available KV cache memory: 20.11 GiB",
    "Chunked prefill is enabled with max_num_batched_tokens=8192.",
]


def test_lines_of_healthy_starts_are_no_failure() -> None:
    start = "INFO 11-30 04:27:09 [a.py:1] vLLM API server version 0.17.1\n" + "starting\n" * 10
    for line in HARMLESS:
        found = diagnosed(log=start + line)
        assert (found.state, found.kind) == ("starting", None), line


def test_every_kind_has_rows_and_every_message_a_kind() -> None:
    assert {row.kind for row in MATCHER.knowledge.signatures if row.role != "harmless"} == set(KINDS)
    assert set(MESSAGES) == set(KINDS)
