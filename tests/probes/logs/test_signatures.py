"""Messages of engines and libraries, each in the form in which its source writes it, and their kind."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
import re2  # type: ignore[import-untyped]
from deployment import MATCHER, diagnosed

from canserve.rules.failures import KINDS

MESSAGES = {
    "weights": [
        "PermissionError: [Errno 13] Permission denied: '/srv/cache/huggingface/hub/refs'",
        "requests.exceptions.HTTPError: 429 Client Error: Too Many Requests for url: https://huggingface.co/api/models/acme/tiny",
        "OSError: [Errno 70] Stale file handle",
        "llama_model_load: error loading model: check_tensor_dims: tensor 'token_embd.weight' not found",
        "llama_model_load: error loading model: create_tensor: tensor 'blk.7.attn_qkv.weight' not found",
        "llama_model_load: error loading model: done_getting_tensors: wrong number of tensors; expected 61, got 59",
        "error loading model: llama.cpp: tensor 'tok_embeddings.weight' is missing from model",
        "llama_model_load: error loading model: check_tensor_dims: tensor 'output.weight' has wrong shape; expected  1024,  8000, got  1024,  8001,     1,     1",
        "AssertionError: Tried to load weights of size torch.Size([512, 1])to a parameter of size torch.Size([64, 16])",
        "AssertionError: Attempted to load weight (torch.Size([130])) into parameter (torch.Size([128]))",
        "ValueError: There is no module or parameter named 'lm_head.qzeros' in AcmeForCausalLM",
        "RuntimeError: start (0) + length (96) exceeds dimension size (80).",
        "OSError: Unable to load weights from pytorch checkpoint file",
        "huggingface_hub.errors.GatedRepoError: 401 Client Error. Access to model acme/tiny-8B is restricted.",
        "OSError: /srv/tiny does not appear to have a file named pytorch_model.bin, model.safetensors, tf_model.h5",
        "FileNotFoundError: [Errno 2] No such file or directory: '/srv/tiny/model-00002-of-00009.safetensors'",
        "gguf_init_from_file: invalid magic characters '<htm'",
        "llama_model_load: error loading model: tensor 'blk.3.ffn_up.weight' data is not within the file bounds, model is corrupted or incomplete",
        "RuntimeError: Cannot find any model weights with `/srv/tiny`",
    ],
    "tokenizer-template-parser": [
        '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set',
        "TypeError: Object of type Undefined is not JSON serializable",
        "AttributeError: 'MistralTokenizer' object has no attribute 'convert_tokens_to_ids'. Did you mean: 'convert_tokens_to_string'?",
        "RuntimeError: Failed to apply AcmeProcessor on data={'text': 'x'} with kwargs={}",
        "RuntimeError: Failed to load the tokenizer. If you are using a LLaMA-based model, use 'hf-internal-testing/llama-tokenizer' instead of the original tokenizer.",
        "Exception: data did not match any variant of untagged enum ModelWrapper at line 4711 column 5",
        "AttributeError: 'CachedAcmeTokenizer' object has no attribute 'all_special_tokens_extended'",
        "ValueError: Couldn't instantiate the backend tokenizer from one of: (1) a `tokenizers` library serialization file",
        "llama_model_load: error loading model vocabulary: unknown pre-tokenizer type: 'acme-bpe'",
        "KeyError: 'invalid tool call parser: acme (chose from { hermes,llama3_json })'",
        "RuntimeError: Hermes 2 Pro Tool parser could not locate tool call start/end tokens in the tokenizer!",
        "RuntimeError: DeepSeek R1 reasoning parser could not locate think start/end tokens in the tokenizer!",
        "jinja2.exceptions.TemplateError: Conversation roles must alternate user/assistant/user/assistant/...",
        "ValueError: Cannot use chat template functions because tokenizer.chat_template is not set and no template argument was passed!",
        "OSError: Can't load image processor for '/srv/tiny'. If you were trying to load it from 'https://huggingface.co/models'",
        "TypeError: Invalid type of HuggingFace processor. Expected type: <class 'transformers.models.acme_vl.processing_acme_vl.AcmeVLProcessor'>, but found type: <class 'transformers.PreTrainedTokenizerFast'>",
        "vllm serve: error: argument --reasoning-parser: invalid choice: 'acme_think' (choose from 'deepseek_r1', 'granite', 'qwen3')",
        "KeyError: \"Reasoning parser 'acme' not found. Available parsers: deepseek_r1, qwen3\"",
        "ImportError: mistral_common is not installed. Please install it with `pip install mistral-common`",
        "Template supports tool calls but does not natively describe tools.",
        "terminate called after throwing an instance of 'std::runtime_error' what():  this custom template is not supported",
    ],
    "gpu-code-arch": [
        "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 200000, Hardware limit: 100000.",
        "ValueError: Unknown CUDA arch (13.7a) or GPU not supported",
        "RuntimeError: FlashInfer requires GPUs with sm75 or higher",
        "RuntimeError: SM 13.x requires CUDA >= 13.4.",
        "RuntimeError: [FP4 gemm Runner] Failed to run cutlass FP4 gemm on sm130. Error: Error Internal",
        "This kernel only supports sm130.",
        "ERROR : Arch conditional MMA instruction used without targeting appropriate compute capability. Aborting.",
        "RuntimeError: CUDA error: no kernel image is available for execution on the device",
        "NVIDIA Acme with CUDA capability sm_137 is not compatible with the current PyTorch installation.",
        "ImportError: Failed to load sgl_kernel: could not load any common_ops library for sm137",
        "triton.runtime.errors.PTXASError: PTXAS error: Internal Triton PTX codegen error",
        "RuntimeError: Ninja build failed. Ninja output: nvcc fatal   : Unsupported gpu architecture 'compute_137a'",
        "NotImplementedError: FlashInfer kernels unavailable for AcmeFusedMoE on current platform",
        "RuntimeError: FlashMLA is only supported on Hopper devices.",
        "rocBLAS error: Cannot read /opt/rocm/lib/rocblas/library/TensileLibrary.dat: No such file or directory for GPU arch : gfx1999",
        "torch._inductor.exc.InductorError: RuntimeError: Failed to find C compiler. Please specify via CC environment variable.",
        "fatal error: cuda_runtime.h: No such file or directory",
        "ggml_cuda_compute_forward: MUL_MAT failed: CUDA error: no kernel image is available for execution on the device",
        "RuntimeError: DeepGEMM is not supported on this GPU",
        "CUDA error: the provided PTX was compiled with an unsupported toolchain.",
    ],
    "quantisation-vs-gpu": [
        "RuntimeError: torch._scaled_mm is only supported on CUDA devices with compute capability >= 9.0 or 8.9, or ROCm MI300+",
        "RuntimeError: \"add_stub\" not implemented for 'Float8_e4m3fn'",
        "RuntimeError: ('Quantization scheme is not supported for ', 'the current GPU. Min capability: 75. ', 'Current capability: 70.')",
        "triton.compiler.errors.CompilationError: type fp8e4nv not supported in this architecture. The supported fp8 dtypes are ('fp8e4b15', 'fp8e5')",
        "ValueError: Unknown quantization method: acme4. Must be one of ['aqlm', 'awq'].",
        "ValueError: mxfp4 quantization is currently not supported in this version",
        "ValueError: Quantization method specified in the model config (fp8) does not match the quantization method specified in the `quantization` argument (awq).",
        "ValueError: Found unknown quantization type acme_mixed",
        "Currently supported kv cache quantization is num_bits=8, type=float, however received num_bits=6, type=float",
        "ValueError: Selected backend AttentionBackendEnum.FLASH_ATTN is not valid for this configuration. Reason: ['kv_cache_dtype not supported']",
        "ValueError: type fp8e5 not supported in this architecture",
        "NotImplementedError: No NvFp4 MoE backend supports the deployment configuration.",
        "ValueError: torch.bfloat16 is not supported for quantization method gptq. Supported dtypes: [torch.float16]",
        "llama_model_load: error loading model: tensor 'blk.5.ffn_down_exps.weight' has invalid ggml type 77 (NONE)",
        "ValueError: Marlin does not support weight_bits = uint5b7. Only types = [ScalarType.uint4b8] are supported",
        "RuntimeError: FlashAttention only supports Ampere GPUs or newer.",
    ],
    "parallel-layout": [
        "ValueError: Total number of attention heads (14) must be divisible by tensor parallel size (4).",
        "AssertionError: 1001 is not divisible by 4",
        "ValueError: Weight input_size_per_partition = 333 is not divisible by min_thread_k = 128. Consider reducing tensor_parallel_size or running with --quantization gptq.",
        "ValueError: The input size is not aligned with the quantized weight shape. This can be caused by too large tensor parallel size.",
        "ValueError: World size (4) is larger than the number of available GPUs (2) in this node. If this is intentional and you are using: - ray",
        "torch.AcceleratorError: CUDA error: invalid device ordinal",
        "AssertionError: Expert parallel size should be 1 when tensor parallel size is larger",
        "NotImplementedError: Pipeline parallelism is not supported for this model. Supported models implement the `SupportsPP` interface.",
        "ValueError: tp_size (8) must be divisible by dp_size (5)",
        "AssertionError: num_attention_heads 30 must be divisible by tp_size 4",
    ],
    "memory": [
        "Error: model requires more system memory (11.0 GiB) than is available (3.5 GiB)",
        "RuntimeError: [enforce fail at alloc_cpu.cpp:114] data. DefaultCPUAllocator: not enough memory: you tried to allocate 1073741824 bytes.",
        "ValueError: Too large swap space. 64.00 GiB out of the 60.00 GiB total CPU memory is allocated for the swap space.",
        "ValueError: To serve at least one request with the models's max seq len (65536), (9.00 GiB KV cache is needed, which is larger than the available KV cache memory (4.50 GiB).",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 128.00 MiB. GPU 3 has a total capacity of 15.50 GiB",
        "ValueError: Free memory on device (10.1/16.0 GiB) on startup is less than desired GPU memory utilization (0.7, 11.2 GiB).",
        "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.",
        "RuntimeError: CUDA error: out of memory",
        "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 512.00 MiB on device 0: cudaMalloc failed: out of memory",
        "llama_init_from_model: failed to initialize the context: failed to allocate compute pp buffers",
        "slurmstepd: error: Detected 1 oom_kill event in StepId=77.batch",
        "ValueError: The decoder prompt (length 5000) is longer than the maximum model length of 4096.",
        "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB",
        "AssertionError: Error in memory profiling. Initial free memory 9.1 GiB, current free memory 9.5 GiB.",
        "[TensorRT-LLM][ERROR] CUDA runtime error in ::cudaMallocAsync(ptr, n, mMemPool->getPool(), mCudaStream->get()): out of memory",
        "RuntimeError: Executor creation failed due to insufficient GPU memory.",
        "Executor creation failed due to insufficient GPU memory",
        "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.",
        "vk::Device::allocateMemory: ErrorOutOfDeviceMemory",
        "Engine process died: exitcode: -9",
    ],
    "driver-cuda-libc-cpu": [
        "RuntimeError: CUDA error: system not yet initialized",
        "RuntimeError: Detected that PyTorch and torchvision were compiled with different CUDA major versions.",
        "RuntimeError: The detected CUDA version (11.4) mismatches the version that was used to compile PyTorch (12.1).",
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
        "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=13.4, please update your driver to a newer version, or use an earlier cuda container: unknown.",
        "ImportError: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.77' not found",
        "ImportError: libcudart.so.13: cannot open shared object file: No such file or directory",
        "ImportError: /usr/lib/x86_64-linux-gnu/libstdc++.so.6: version `GLIBCXX_3.4.77' not found",
        "exec /usr/bin/python3: exec format error",
        "ImportError: /srv/venv/flash_attn_2_cuda.so: undefined symbol: _ZN3c105ErrorC2ENS_14SourceLocationESs",
        "RuntimeError: CUDA driver version is insufficient for CUDA runtime version",
        "Illegal instruction (core dumped)",
        "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 803: system has unsupported display driver / cuda driver combination",
        "OSError: libmpi.so.40: cannot open shared object file: No such file or directory",
    ],
    "multi-node-and-collectives": [
        "ValueError: Error initializing torch.distributed using env:// rendezvous: environment variable MASTER_ADDR expected, but not set",
        "socket.gaierror: [Errno -2] Name or service not known",
        "RuntimeError: Did not receive response from front-end process within 5 minutes",
        "the engine hangs at NCCL init with tensor parallel 4 over two nodes",
        "NCCL WARN socketPollConnect: Connect to 10.9.0.4<4001> returned 113(No route to host) errno 115(Operation now in progress)",
        "socket.c:77 NCCL WARN socketStartConnect: Connect to 10.9.0.8<4002> failed : Software caused connection abort",
        "NCCL WARN Error while attaching to shared memory segment /dev/shm/nccl- (size 4096000), error: No such file or directory (2)",
        "Bootstrap : no socket interface found",
        "ValueError: Ray does not allocate any GPUs on the driver node. Consider adjusting the Ray placement group or running the driver on a GPU node.",
        "(autoscaler +7s) Error: No available node types can fulfill resource request {'node:10.9.0.2': 0.001, 'GPU': 2.0}.",
        "RuntimeError: Every node should have a unique IP address. Got 2 nodes with node ids [...] and 1 unique IP addresses",
        "torch.distributed.DistNetworkError: The client socket has timed out after 300000ms while trying to connect to (10.9.0.1, 4321).",
        "[E ProcessGroupNCCL.cpp:99] [Rank 5] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=17, OpType=ALLREDUCE) ran for 1800001 milliseconds before timing out.",
        "torch.distributed.DistStoreError: Timed out after 301 seconds waiting for clients. 1/2 clients joined.",
        "RuntimeError: NCCL error: remote process exited or there was a network error",
        "NCCL WARN NET/IB : Got async event : port error",
        "NCCL WARN Cuda failure 'peer access is not supported between these two devices'",
        "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.9.0.2]:4003",
        "NCCL WARN Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 7000",
        "RuntimeError: No CUDA-capable NVSHMEM transport: nvshmem_init failed",
        "RuntimeError: DeepEP error: timeout (dispatch CPU)",
        "zmq.error.ZMQError: Address already in use (addr='tcp://*:4004')",
        "AssertionError: RayExecutor: please make sure all nodes have the same ray version",
        "ConnectionError: ray client connection timeout",
        "INFO: Waiting for 1 local, 0 remote core engine proc(s) to start.",
    ],
    "config-model_type": [
        "ValueError: The checkpoint you are trying to load has model type `acme_moe` but Transformers does not recognize this architecture.",
        "KeyError: 'acme_next'",
        "AttributeError: 'AcmeConfig' object has no attribute 'rope_theta'",
        "ValueError: Unrecognized model in /srv/tiny. Should have a `model_type` key in its config.json",
        "ValueError: 'acmev2' is already used by a Transformers config, pick another name.",
        "ImportError: cannot import name 'AcmeConfig' from 'transformers'",
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig Value error, The checkpoint you are trying to load has model type `acme3` but Transformers does not recognize this architecture.",
        "OSError: /srv/tiny does not appear to have a file named config.json.",
        "ValueError: The repository /srv/tiny contains custom code which must be executed to correctly load the model. Please pass the argument `trust_remote_code=True`",
        "AttributeError: 'dict' object has no attribute 'model_type'",
        "RuntimeError: Failed to load the model config. If the model is a custom model not yet available in the HuggingFace transformers library",
        "AssertionError: rope_scaling type must be in config, found {'rope_type': 'llama3'}",
        "TypeError: AcmeConfig.__init__() got an unexpected keyword argument 'layer_types'",
    ],
    "architecture-not-in-registry": [
        "ValueError: Model architectures ['AcmeMoeForCausalLM'] are not supported for now. Supported architectures: dict_keys(['AquilaModel'])",
        "ValueError: Model architectures ['AcmeNextForCausalLM'] failed to be inspected. Please check the logs for more details.",
        "ValueError: Unsupported architectures: AcmeM2ForCausalLM. Supported list: ['LlamaForCausalLM']",
        "llama_model_load: error loading model: error loading model architecture: unknown model architecture: 'acmenext'",
        "ValueError: XyzForCausalLM has no vLLM implementation and the Transformers implementation is not compatible with vLLM.",
        "ValueError: Unknown architecture for AutoModelForCausalLM: AcmeForConditionalGeneration",
        "RuntimeError: Unable to load model: architecture FooForCausalLM not found in registry",
        "ValueError: Model class 'AcmeMM' not found",
        'Error: unable to load model: unsupported model architecture "acmeoss"',
        "ValueError: No model architecture found for GGUF architecture 'acme35'",
        "ValueError: Model architecture AcmeForConditionalGeneration was supported in vLLM until v0.9.9, and is not supported anymore.",
    ],
    "image-probing-and-logs": [
        "importlib.metadata.PackageNotFoundError: No package metadata was found for vllm",
        "sh: 1: vllm: not found",
        "vllm: error: argument subparser: invalid choice: 'acme/tiny' (choose from 'chat', 'complete', 'serve')",
        "ImportError: libcuda.so.1: cannot open shared object file: No such file or directory",
        "RuntimeError: Failed to infer device type, please set the environment variable `VLLM_LOGGING_LEVEL=DEBUG`",
        "vllm: error: unrecognized arguments: serve",
        "ModuleNotFoundError: No module named 'vllm._C'",
        "RuntimeError: Found no NVIDIA driver on your system.",
        'docker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]].',
        "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause.",
        "0.77.1.dev0+g0123abcde.d20261130",
    ],
    "served-but-wrong": [
        "RuntimeError: probability tensor contains either `inf`, `nan` or element < 0",
        '"content": "!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!"',
        '"reasoning_content": null, "content": "Let me see... </think> The answer is 4"',
        "NCCL INFO Channel 00/0 : 0[0] -> 1[0] [receive] via NET/Socket/0",
    ],
}


MORE: dict[str, list[str]] = tomllib.loads(Path(__file__).with_name("messages.toml").read_text("utf-8"))


@pytest.mark.parametrize(("kind", "message"), [(kind, each) for kind, many in MORE.items() for each in many])
def test_a_further_message_leads_to_its_kind(kind: str, message: str) -> None:
    assert diagnosed(log=message).kind == kind


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
    "host:7:7 [0] NCCL INFO NET/Plugin: Plugin load returned 2 : libnccl-net.so: cannot open shared object file",
    "host:7:7 [0] misc/ibvwrap.cc:7 NCCL WARN Call to ibv_open_device failed",
    "[W socket.cpp:7] [c10d] The server socket has failed to bind to [::]:29999 (errno: 97 - Address family not supported).",
    "WARNING 11-30 04:27:10 [fp8.py:7] DeepGEMM is not available, falling back to CUTLASS",
    "Available KV cache memory: 20.11 GiB",
    "Chunked prefill is enabled with max_num_batched_tokens=8192.",
    '/vllm-0 {"Status":"running","Running":true,"OOMKilled":false,"Dead":false,"ExitCode":0,"Error":""}',
]


@pytest.mark.parametrize("line", ['"OOMKilled":true,"Dead":false', "Last state: OOMKilled, exit code 9"])
def test_a_container_engine_says_that_memory_ran_out(line: str) -> None:
    assert diagnosed(log=line).kind == "memory"


def test_lines_of_healthy_starts_are_no_failure() -> None:
    start = "INFO 11-30 04:27:09 [a.py:1] vLLM API server version 0.17.1\n" + "starting\n" * 10
    for line in HARMLESS:
        found = diagnosed(log=start + line)
        assert (found.state, found.kind) == ("starting", None), line


def test_every_pattern_can_be_compiled() -> None:
    for row in MATCHER.knowledge.signatures:
        for pattern in row.match:
            assert re2.compile(pattern) is not None


def test_every_kind_has_rows_and_every_message_a_kind() -> None:
    rows = MATCHER.knowledge.signatures
    assert {row.kind for row in rows if row.role not in ("harmless", "consequence")} == set(KINDS)
    assert {row.kind for row in rows if row.role == "consequence"} <= {"", *KINDS}
    assert set(MESSAGES) == set(KINDS)
