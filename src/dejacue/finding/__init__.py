"""From a video and words to a Finding, as stages that others can call, too.

    FindRequest   what is asked                                        request.py
    Job       a video, which frames, where the object is, an encoder     job.py
      .open      → Video
      .observe   ObjectSource: masks, prompts, a region or a name → Observed   where.py
    encode    a job → Encoded: History and pictures of each object    _encode.py
    apply_readout   a history and words → Timeline                    _readout.py

``find`` and ``find_each`` (_find.py) call them one after the other and return a Finding
(finding.py). Information is logged ("dejacue"), progress is reported (dejacue.progress), and what a
reader must know is among the warnings of what is returned.
"""
