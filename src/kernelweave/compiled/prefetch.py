"""Ask the processor for memory that will be read soon, where reads jump too far for it to guess."""

from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic


@intrinsic
def _prefetch(typing_context, address):
    """Fetch the cache line at an address, given as a whole number."""

    def generate(context, builder, signature, arguments):
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        call = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        place = builder.inttoptr(arguments[0], byte)
        builder.call(call, [place, word(0), word(3), word(1)])  # to read, to stay, data
        return context.get_dummy_value()

    return types.void(types.intp), generate


prefetch: Any = _prefetch
