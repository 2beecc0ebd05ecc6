"""Pods of the controller's own Deployment, run as local processes the way a kubelet would.

Pure: ``environment``, ``probes`` (the tracker), ``restarts``, ``status``. Doing: ``identity``
(tokens and files), ``process``, ``container``, ``pod`` and ``runner``, from small to large.
"""
