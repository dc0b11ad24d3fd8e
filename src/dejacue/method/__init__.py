"""The paper's method on records: numpy and the compiled kernel only, no files, no torch.

coordinates → evidence → durations → scan (or another readout) → locate
"""
