"""Standard errors from the likelihood of the mixture itself."""

from mixreg.inference.covariance import covariance
from mixreg.inference.information import InformationSums, TakeInformation

__all__ = ["InformationSums", "TakeInformation", "covariance"]
