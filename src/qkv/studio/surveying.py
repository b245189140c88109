"""Looking at layers as they are heard."""

from ..tracing.survey import Surveyor as Surveyor
