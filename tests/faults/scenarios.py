"""The register of scenarios. A scenario is a function of a round: it injects a fault and makes its
own checks. Round.afterwards checks what holds after every fault.
"""

ALL = {}


def scenario(needs=None):
    """`needs` names the option without which the scenario is skipped."""

    def enter(function):
        function.needs = needs
        ALL[function.__name__] = function
        return function

    return enter


def every():
    # pylint: disable=import-outside-toplevel,unused-import
    import scenarios_close  # noqa: F401
    import scenarios_connect  # noqa: F401
    import scenarios_group  # noqa: F401
    import scenarios_hub  # noqa: F401
    import scenarios_hub_message  # noqa: F401
    import scenarios_kill  # noqa: F401
    import scenarios_messages  # noqa: F401
    import scenarios_multi  # noqa: F401
    import scenarios_rma  # noqa: F401
    import scenarios_silence  # noqa: F401
    import scenarios_window  # noqa: F401

    return ALL


def available(options):
    return {
        name: function
        for name, function in every().items()
        if function.needs is None or getattr(options, function.needs)
    }
