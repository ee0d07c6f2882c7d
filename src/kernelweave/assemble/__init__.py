"""The door: the user's samples, labels and kernels in; problems on stored Gram matrices out."""

from .labels import Targets, Task, read_targets, split_tasks
from .memory import available_memory, check_memory
from .parameters import Options, check_number, check_whole
from .stacks import Assembly, from_samples, from_stack, read_stack, real_array

__all__ = [
    "Assembly",
    "Options",
    "Targets",
    "Task",
    "available_memory",
    "check_memory",
    "check_number",
    "check_whole",
    "from_samples",
    "from_stack",
    "read_stack",
    "read_targets",
    "real_array",
    "split_tasks",
]
