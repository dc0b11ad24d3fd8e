"""The compiled parts. Everything else about the package is in pyproject.toml.

The extension is optional: where it cannot be built the package installs all the same and computes
the same windows with numpy, with one warning at first use.
"""

import os
import sys

from setuptools import Extension, setup

if sys.platform == "win32":
    flags, links = ["/O2", "/std:c11", "/fp:precise"], []
else:
    # Contracting a*b+c into one rounding would make the answer depend on the machine.
    flags = ["-std=c11", "-D_DEFAULT_SOURCE", "-O3", "-Wall", "-ffp-contract=off"]
    flags.append("-fno-math-errno")
    links = []

if os.environ.get("DEJACUE_SANITIZE"):
    sanitize = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]
    flags += [*sanitize, "-g", "-O1", "-fno-omit-frame-pointer"]
    links += sanitize

setup(
    ext_modules=[
        Extension(
            "dejacue.method._kernel",
            sources=["src/kernel/module.c", "src/kernel/baseline.c", "src/kernel/avx2.c"],
            depends=[f"src/kernel/{name}.h" for name in ("kernel", "body", "select", "scan")],
            extra_compile_args=flags,
            extra_link_args=links,
            define_macros=[("Py_LIMITED_API", "0x030B0000")],
            py_limited_api=True,
            optional=not os.environ.get("DEJACUE_REQUIRE_KERNEL"),
        ),
        Extension(
            "dejacue.method._contrast",
            sources=["src/kernel/contrast.c"],
            extra_compile_args=flags,
            extra_link_args=links,
            define_macros=[("Py_LIMITED_API", "0x030B0000")],
            py_limited_api=True,
            optional=not os.environ.get("DEJACUE_REQUIRE_KERNEL"),
        ),
        Extension(
            "dejacue.sources._pixels",
            sources=["src/kernel/pixels.c"],
            extra_compile_args=flags,
            extra_link_args=links,
            define_macros=[("Py_LIMITED_API", "0x030B0000")],
            py_limited_api=True,
            optional=not os.environ.get("DEJACUE_REQUIRE_KERNEL"),
        ),
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
