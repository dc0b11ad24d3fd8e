"""A readout that is calibrated with a few labels (``fit``)."""

from dejacue.learn.calibrated import Calibrated as Calibrated
from dejacue.learn.calibrated import fit as fit
