"""Settings of the property tests: no deadlines, because a loaded machine is not a bug."""

from hypothesis import HealthCheck, settings

settings.register_profile("halo", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("halo")
