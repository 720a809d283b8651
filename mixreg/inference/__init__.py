"""Standard errors from the likelihood of the mixture itself."""

from mixreg.inference.information import InformationSums, TakeInformation
from mixreg.inference.covariance import covariance

__all__ = ["InformationSums", "TakeInformation", "covariance"]
