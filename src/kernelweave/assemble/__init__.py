"""The door: the user's samples, targets and kernels in; problems on stored kernels out."""

from .base import Assembly, Predictor
from .combined import Combination, gated_sum, gaussian_product, squared_sum
from .complexity import Complexity, EffectiveDimension, TailSum
from .effects import EffectsAssembly, EffectsExpansion, from_effects, unlisted
from .exact import TensorAssembly, TensorExpansion, from_tensors
from .factors import FactorAssembly, FactorExpansion, described, from_factors
from .folds import FactorFold, Fold, SampleFold, StoredFold, fold_of, rows_of
from .labels import Labels, class_targets, given_factors, read_labels, split_classes
from .memory import available_memory, check_memory
from .parameters import Options, check_choice, check_cost, check_number, check_whole
from .products import (
    FactorProductAssembly,
    FactorProductExpansion,
    ProductAssembly,
    ProductExpansion,
    check_products,
    paired,
)
from .stacks import KernelAssembly, from_samples, from_stack, read_stack, real_array, resolve_bank
from .targets import (
    Numbers,
    Subproblem,
    Targets,
    number_targets,
    outlier_targets,
    read_numbers,
    read_survival,
    read_weight,
    survival_targets,
    target_names,
)
from .tensors import check_together, read_tensor
from .views import Views, as_objects, as_views, check_columns, check_order

__all__ = [
    "Assembly",
    "Combination",
    "Complexity",
    "EffectiveDimension",
    "EffectsAssembly",
    "EffectsExpansion",
    "FactorAssembly",
    "FactorExpansion",
    "FactorFold",
    "FactorProductAssembly",
    "FactorProductExpansion",
    "Fold",
    "KernelAssembly",
    "Labels",
    "Numbers",
    "Options",
    "Predictor",
    "ProductAssembly",
    "ProductExpansion",
    "SampleFold",
    "StoredFold",
    "Subproblem",
    "TailSum",
    "Targets",
    "TensorAssembly",
    "TensorExpansion",
    "Views",
    "as_objects",
    "as_views",
    "available_memory",
    "check_choice",
    "check_columns",
    "check_cost",
    "check_memory",
    "check_number",
    "check_order",
    "check_products",
    "check_together",
    "check_whole",
    "class_targets",
    "described",
    "fold_of",
    "from_effects",
    "from_factors",
    "from_samples",
    "from_stack",
    "from_tensors",
    "gated_sum",
    "gaussian_product",
    "given_factors",
    "number_targets",
    "outlier_targets",
    "paired",
    "read_labels",
    "read_numbers",
    "read_stack",
    "read_survival",
    "read_tensor",
    "read_weight",
    "real_array",
    "resolve_bank",
    "rows_of",
    "split_classes",
    "squared_sum",
    "survival_targets",
    "target_names",
    "unlisted",
]
