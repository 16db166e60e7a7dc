"""Entries and runners: what a task runs outside of its process, and where it runs.

    exchange = Exchanges(Path("/var/lib/snowpack")).begin("dag/run/score/-1", attempt_id)
    exchange.write_input("flights", reader)
    exchange.write_call(ModuleEntry("acme.scoring:score"), kwargs={"flights": InputTable("flights")})
    runner = SubprocessRunner()
    code = runner.run(exchange.invocation(isolated=runner.isolated, inside=runner.inside), on_line)
    exchange.result(code).value                                  # {"scored": OutputTable("scored"), "rows": 7}

An entry is a **module entry**, which calls a Python function, or a **shell entry**, which runs a command without a shell. A
runner runs it in a subprocess, a container or a pod. Task and entry share one folder per attempt, the exchange folder.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
