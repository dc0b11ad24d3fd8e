"""What is learned: a calibrated readout from a few labels (``fit``), the paper's decoders, and the
embedded encoder ``mini``."""

from dejacue.learn.calibrated import Calibrated as Calibrated
from dejacue.learn.calibrated_fit import fit as fit
