"""The register of scenarios. One is a function of a round that injects a fault and checks what is
particular to it; what holds after every fault is checked by Round.afterwards."""

ALL = {}


def scenario(needs=None):
    """`needs` names the option without which the scenario is left out."""

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
