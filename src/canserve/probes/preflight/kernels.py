"""Small products and kernels that tell in seconds what an engine would tell after loading: part of the program's text.

Each is computed here and compared with the same in plain arithmetic. One that does not apply says why.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

SIDE, BLOCK, MX = 256, 128, 32
WRONG = 0.05
"""Of the largest value: bf16 and FP8 inputs are rounded alike on both sides, only sums are not."""

if sys.argv[1:2] == ["kernels"]:  # Triton reads a kernel's own source, which must be at the top of a file
    try:
        import triton  # type: ignore[import-not-found]
        import triton.language as tl  # type: ignore[import-not-found]
    except ImportError:
        triton = None
    if triton is not None:

        @triton.jit  # type: ignore[untyped-decorator]
        def _doubled(source, target, count, WIDTH: tl.constexpr):  # type: ignore[no-untyped-def] # noqa: N803
            at = tl.program_id(0) * WIDTH + tl.arange(0, WIDTH)
            tl.store(target + at, tl.load(source + at, mask=at < count) * 2.0, mask=at < count)

        @triton.jit  # type: ignore[untyped-decorator]
        def _blocks(a, b, scale_a, scale_b, out, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def] # noqa: N803
            """One tile of a product in blocks, each with a scale: what block-quantized layers compute."""
            row, column, many = tl.program_id(0), tl.program_id(1), tl.num_programs(0)
            side = many * BLOCK
            rows = row * BLOCK + tl.arange(0, BLOCK)
            columns = column * BLOCK + tl.arange(0, BLOCK)
            total = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
            for step in range(many):
                inner = step * BLOCK + tl.arange(0, BLOCK)
                left = tl.load(a + rows[:, None] * side + inner[None, :])
                right = tl.load(b + inner[:, None] * side + columns[None, :])
                scale = tl.load(scale_a + row * many + step) * tl.load(scale_b + step * many + column)  # fmt: skip
                total += tl.dot(left, right) * scale
            tl.store(out + rows[:, None] * side + columns[None, :], total)

        @triton.jit  # type: ignore[untyped-decorator]
        def _nibbles(a, packed, scales, out, BLOCK: tl.constexpr, GROUP: tl.constexpr):  # type: ignore[no-untyped-def] # noqa: N803
            """One tile of a product with weights of four bits, unpacked on the way: rows of the upper half in the low bits.

            In groups of 32 they are e2m1, as MXFP4 has them, else integers.
            """
            row, column, many = tl.program_id(0), tl.program_id(1), tl.num_programs(0)
            side = many * BLOCK
            half = side // 2
            rows = row * BLOCK + tl.arange(0, BLOCK)
            columns = column * BLOCK + tl.arange(0, BLOCK)
            total = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
            for step in range(half // GROUP):
                inner = step * GROUP + tl.arange(0, GROUP)
                both = tl.load(packed + inner[:, None] * side + columns[None, :]).to(tl.int32)
                for part in range(2):
                    code = (both >> (4 * part)) & 15
                    if GROUP == 32:
                        power, rest = (code >> 1) & 3, (code & 1).to(tl.float32)
                        size = tl.where(power == 0, 0.5 * rest, (1 + 0.5 * rest) * tl.exp2((power - 1).to(tl.float32)))  # fmt: skip
                        value = tl.where(code >= 8, -size, size)
                    else:
                        value = (code - 8).to(tl.float32)
                    left = tl.load(a + rows[:, None] * side + (inner + part * half)[None, :])
                    scale = tl.load(scales + (step + part * (half // GROUP)) * side + columns)
                    total += tl.dot(left, value.to(tl.float16)) * scale[None, :]
            tl.store(out + rows[:, None] * side + columns[None, :], total)


class NotHere(Exception):  # noqa: N818 - no error: this accelerator does not have it
    """A kernel does not apply here."""


NEEDED: set[str] = set()
"""Holds ``cuda`` where ranks use GPUs: what cannot use one there has failed, and nothing is tried on the processor."""


def place() -> str:
    """Where a product is tried."""
    import torch

    return "cuda" if "cuda" in NEEDED or torch.cuda.is_available() else "cpu"


def needs_gpu() -> None:
    """Ends a kernel that cannot be tried where there is no accelerator, and fails where there has to be one."""
    import torch

    if not torch.cuda.is_available():
        if "cuda" in NEEDED:
            torch.empty(1, device="cuda")  # raises, and says why
        raise NotHere("there is no GPU here")


def product(dtype: str) -> None:
    """A matrix product in the dtype, as the vendor's library does it."""
    import torch

    torch.manual_seed(0)
    a, b = (torch.randn(SIDE, SIDE).to(getattr(torch, dtype)) for _ in range(2))
    compare((a.to(place()) @ b.to(place())).float().cpu(), a.float() @ b.float())


def triton_compiles() -> None:
    """Triton compiles for this accelerator, and what it compiled runs."""
    import torch

    needs_triton()
    source = torch.arange(1000, device="cuda", dtype=torch.float32)
    target = torch.empty_like(source)
    _doubled[(4,)](source, target, 1000, WIDTH=256)
    compare(target.cpu(), source.cpu() * 2)


def needs_triton() -> None:
    """The same, and without Triton it has failed."""
    needs_gpu()
    if triton is None:
        raise RuntimeError("Triton cannot be imported in this environment")


def needs_fp8() -> None:
    """Not here: no GPU, or one without such units."""
    import torch

    needs_gpu()
    if torch.cuda.get_device_capability() < (8, 9) or torch.version.hip:
        raise NotHere("this GPU has no FP8 (e4m3) units")


def fp8_blocks() -> None:
    """A product of FP8 matrices with a scale for every block of 128 by 128."""
    import torch

    needs_triton()
    needs_fp8()
    torch.manual_seed(0)
    a, b = (torch.randn(SIDE, SIDE).to(torch.float8_e4m3fn) for _ in range(2))
    scale_a, scale_b = (torch.rand(SIDE // BLOCK, SIDE // BLOCK) + 0.5 for _ in range(2))
    wide = (s.repeat_interleave(BLOCK, 0).repeat_interleave(BLOCK, 1) for s in (scale_a, scale_b))
    left, right = (x.float() * scale for x, scale in zip((a, b), wide, strict=False))
    out = torch.empty(SIDE, SIDE, device="cuda", dtype=torch.float32)
    grid = (SIDE // BLOCK, SIDE // BLOCK)
    _blocks[grid](*(x.cuda() for x in (a, b, scale_a, scale_b)), out, BLOCK=BLOCK)
    compare(out.cpu(), left @ right)


def fp8_scaled() -> None:
    """A product of FP8 matrices with one scale each, as the vendor's library does it."""
    import torch

    needs_fp8()
    torch.manual_seed(0)
    a, b = (torch.randn(SIDE, SIDE).to(torch.float8_e4m3fn) for _ in range(2))
    scale_a, scale_b = torch.tensor(0.5, device="cuda"), torch.tensor(1.5, device="cuda")
    out = torch._scaled_mm(a.cuda(), b.cuda().t(), scale_a=scale_a, scale_b=scale_b, out_dtype=torch.bfloat16)  # noqa: SLF001
    compare(out.float().cpu(), (a.float() @ b.float().t()) * 0.75)


def int8_product() -> None:
    """A product of 8-bit integers, as the vendor's library does it; the result is exact."""
    import torch

    torch.manual_seed(0)
    a, b = (torch.randint(-127, 128, (SIDE, SIDE), dtype=torch.int8) for _ in range(2))
    out = torch._int_mm(a.to(place()), b.to(place()).t())  # noqa: SLF001
    if not torch.equal(out.cpu().long(), a.long() @ b.long().t()):
        raise ArithmeticError("the result is wrong, and integers have no rounding")


def four_bits(group: int) -> None:
    """A product with weights of four bits in groups, each with a scale: integers, or e2m1 with powers of two."""
    import torch

    needs_triton()
    torch.manual_seed(0)
    a, codes = torch.randn(SIDE, SIDE).half(), torch.randint(0, 16, (SIDE, SIDE), dtype=torch.int32)
    scales = torch.rand(SIDE // group, SIDE) + 0.5
    if group == MX:
        scales = torch.exp2(torch.randint(-2, 3, (SIDE // group, SIDE)).float())
        table = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])
        weights = table[codes.long() & 7] * torch.where(codes >= 8, -1.0, 1.0)
    else:
        weights = codes.float() - 8
    packed = (codes[: SIDE // 2] | (codes[SIDE // 2 :] << 4)).to(torch.uint8)
    out = torch.empty(SIDE, SIDE, device="cuda", dtype=torch.float32)
    grid = (SIDE // BLOCK, SIDE // BLOCK)
    _nibbles[grid](a.cuda(), packed.cuda(), scales.cuda(), out, BLOCK=BLOCK, GROUP=group)
    compare(out.cpu(), a.float() @ (weights * scales.repeat_interleave(group, 0)))


def fp4_blocks() -> None:
    """A product of FP4 matrices with a scale for every 16 values, as the vendor's library does it."""
    import torch

    needs_gpu()
    if torch.version.hip or torch.cuda.get_device_capability()[0] < 10:
        raise NotHere("this GPU has no FP4 units")
    # 0x22 is twice 1.0 in e2m1, and every scale is 1: each sum is exactly the length of a row.
    a, b = (torch.full((SIDE, SIDE // 2), 0x22, dtype=torch.uint8, device="cuda").view(torch.float4_e2m1fn_x2) for _ in range(2))  # fmt: skip
    scales = torch.ones(SIDE * SIDE // 16, device="cuda").to(torch.float8_e4m3fn)
    out = torch._scaled_mm(a, b.t(), scale_a=scales, scale_b=scales, out_dtype=torch.bfloat16)  # noqa: SLF001
    compare(out.float().cpu(), torch.full((SIDE, SIDE), float(SIDE)))


def compare(got: Any, want: Any) -> None:
    """Whether it is the same up to rounding."""
    worst = float((got - want).abs().max() / want.abs().max())
    if not worst < WRONG:
        raise ArithmeticError(f"the result is wrong by {worst:.3g} of the largest value")


TRIALS: dict[str, Callable[[], None]] = {
    "bfloat16": lambda: product("bfloat16"),
    "float16": lambda: product("float16"),
    "triton": triton_compiles,
    "float32": lambda: product("float32"),
    "fp8": fp8_blocks,
    "fp8-scaled": fp8_scaled,
    "fp4": fp4_blocks,
    "mxfp4": lambda: four_bits(MX),
    "int4": lambda: four_bits(BLOCK),
    "int8": int8_product,
}


def run_kernels(names: list[str], device: str, step: Callable[[str], Any]) -> None:
    """One after the other, on the device of the ranks. An exception ends this process; the supervisor then starts another with what is left."""
    NEEDED.add(device)
    for name in names:
        with step(name) as told:
            try:
                TRIALS[name]()
            except NotHere as why:
                told.more = {"state": "absent", "said": str(why)}
