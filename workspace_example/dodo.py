from halo.dodo import *  # noqa: F403
