"""Settings of Hypothesis for a machine that may be busy: no example has a deadline, and none takes too long to be drawn.

@UNHURRIED
@given(st.integers())
def test_…

@settings(UNHURRIED, max_examples=40)
@given(st.integers())
def test_…
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings

UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
