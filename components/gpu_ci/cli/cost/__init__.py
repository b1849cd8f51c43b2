"""`gpu-ci cost`: what pools would cost, and what machines did cost."""
