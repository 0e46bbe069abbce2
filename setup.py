"""Metadata of the package; everything else is in pyproject.toml."""

from setuptools import find_packages, setup

setup(
    name="tfcnn",
    version="0.1.0",
    description="Run TensorFlow's official CNN benchmark, pinned to a release, and say honestly how fast this machine is",
    python_requires=">=3.11",
    packages=find_packages(include=["wrapper", "wrapper.*"]),
    package_data={"wrapper": ["data/*.yaml", "data/*/*", "py.typed"]},
    install_requires=[
        "GitPython>=3.1.40",
        "Jinja2>=3.1",
        "PyYAML>=6",
        "filelock>=3.13",
        "msgspec>=0.19",
        "nvidia-ml-py>=12.560",
        "packaging>=24",
        "pandas>=2.2",
        "psutil>=6",
        "py-cpuinfo>=9",
        "rich>=13",
        "tabulate>=0.9",
        "uv>=0.8.4",
    ],
    extras_require={
        "test": ["hypothesis", "mypy", "pandas-stubs", "pytest", "pytest-xdist", "ruff", "types-PyYAML", "types-psutil", "types-tabulate"],
    },
    entry_points={"console_scripts": ["tfcnn = wrapper.cli:main"]},
)
