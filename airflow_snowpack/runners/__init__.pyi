from .entry import Entry as Entry, InputTable as InputTable, ModuleEntry as ModuleEntry, ShellEntry as ShellEntry
from .exchange import EntryResult as EntryResult, Exchange as Exchange, OutputTable as OutputTable
from .exchanges import Exchanges as Exchanges
from .invocation import Invocation as Invocation, OutputLine as OutputLine, Runner as Runner
from .output_lines import OutputLines as OutputLines, Stream as Stream
from .subprocess_runner import SubprocessRunner as SubprocessRunner
