"""What people do with a contract: guards, inputs that run, the accepted sizes nearest to those wanted."""

from .enumeration import enumerate_sizes
from .guard import guard, guarded
from .inputs import GeneratedInputs, generate_inputs
from .sizes import NoSizes, Sizes

__all__ = ["GeneratedInputs", "NoSizes", "Sizes", "enumerate_sizes", "generate_inputs", "guard", "guarded"]
