"""The door: the user's samples, labels and kernels in; problems on stored kernels out."""

from .base import Assembly, Predictor
from .factors import FactorAssembly, described, from_factors
from .labels import Targets, Task, read_targets, read_weight, split_tasks
from .memory import available_memory, check_memory
from .parameters import Options, check_number, check_whole
from .products import ProductAssembly, ProductExpansion, check_products, paired
from .stacks import KernelAssembly, from_samples, from_stack, read_stack, real_array
from .tensors import check_together, read_labels, read_tensor

__all__ = [
    "Assembly",
    "FactorAssembly",
    "KernelAssembly",
    "Options",
    "Predictor",
    "ProductAssembly",
    "ProductExpansion",
    "Targets",
    "Task",
    "available_memory",
    "check_memory",
    "check_number",
    "check_products",
    "check_together",
    "check_whole",
    "described",
    "from_factors",
    "from_samples",
    "from_stack",
    "paired",
    "read_labels",
    "read_stack",
    "read_targets",
    "read_tensor",
    "read_weight",
    "real_array",
    "split_tasks",
]
