package transfer

import "syscall"

// changed is when a file's place, content or rights were changed last.
func changed(st *syscall.Stat_t) syscall.Timespec { return st.Ctim }
