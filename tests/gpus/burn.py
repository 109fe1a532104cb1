"""Use a GPU: allocate memory, and keep the GPU busy for a part of the time. Needs only NVIDIA's driver.

usage: burn.py SECONDS MEGABYTES PERCENT"""

from __future__ import annotations

import os
import sys
import time
from ctypes import CDLL, addressof, byref, c_char_p, c_int, c_size_t, c_uint64, c_void_p

PTX = b"""
.version 6.0
.target sm_60
.address_size 64
.visible .entry spin(.param .u64 nanoseconds)
{
    .reg .u64 %rd<5>;
    .reg .pred %p<2>;
    ld.param.u64 %rd1, [nanoseconds];
    mov.u64 %rd2, %globaltimer;
AGAIN:
    mov.u64 %rd3, %globaltimer;
    sub.u64 %rd4, %rd3, %rd2;
    setp.lt.u64 %p1, %rd4, %rd1;
    @%p1 bra AGAIN;
    ret;
}
"""
PERIOD = 0.05  #: seconds; in each period, the GPU is busy for the given part


def main(seconds: float, megabytes: int, percent: float) -> None:
    for name in sorted(os.environ):
        if "VISIBLE_DEVICES" in name or "ORDINAL" in name or "Assigned" in name:
            print(f"{name}={os.environ[name]}")
    cuda = CDLL("libcuda.so.1")

    def call(function: str, *arguments: object) -> None:
        code = getattr(cuda, function)(*arguments)
        if code:
            sys.exit(f"{function}: error {code}")

    device, context, module, kernel, memory = c_int(), c_void_p(), c_void_p(), c_void_p(), c_uint64()
    call("cuInit", 0)
    call("cuDeviceGet", byref(device), 0)
    call("cuCtxCreate_v2", byref(context), 0, device)
    call("cuModuleLoadData", byref(module), c_char_p(PTX))
    call("cuModuleGetFunction", byref(kernel), module, c_char_p(b"spin"))
    call("cuMemAlloc_v2", byref(memory), c_size_t(megabytes << 20))
    busy = c_uint64(round(PERIOD * percent / 100 * 1e9))
    parameters = (c_void_p * 1)(addressof(busy))
    start = time.monotonic()
    rounds = 0
    while time.monotonic() < start + seconds:
        if busy.value:
            call("cuLaunchKernel", kernel, 1, 1, 1, 1, 1, 1, 0, None, parameters, None)
            call("cuCtxSynchronize")
        rounds += 1
        time.sleep(max(0.0, start + rounds * PERIOD - time.monotonic()))
    print(f"rounds {rounds}")


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
