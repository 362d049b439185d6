#!/bin/sh
# One letter too many in a flag: found by line, before anything starts.
exec vllm serve examples/founding/model \
    --max-model-len 32768 \
    --reasoning-parserr qwen3
