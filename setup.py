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
    # Contracting a*b+c into one rounding would make values depend on the compiler.
    flags = ["-std=c11", "-D_DEFAULT_SOURCE", "-O3", "-Wall", "-ffp-contract=off"]
    flags.append("-fno-math-errno")
    links = []

if os.environ.get("DEJACUE_SANITIZE"):
    sanitize = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]
    flags += [*sanitize, "-g", "-O1", "-fno-omit-frame-pointer"]
    links += sanitize


def extension(name: str, sources: list[str], depends: tuple[str, ...] = ()) -> Extension:
    return Extension(
        name,
        sources=[f"src/kernel/{source}.c" for source in sources],
        depends=[f"src/kernel/{header}.h" for header in depends],
        extra_compile_args=flags,
        extra_link_args=links,
        define_macros=[("Py_LIMITED_API", "0x030B0000")],
        py_limited_api=True,
        optional=not os.environ.get("DEJACUE_REQUIRE_KERNEL"),
    )


setup(
    ext_modules=[
        extension(
            "dejacue.method._kernel",
            ["module", "baseline", "avx2"],
            ("kernel", "body", "select", "scan", "states", "contrast"),
        ),
        extension("dejacue.video._pixels", ["pixels"]),
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
