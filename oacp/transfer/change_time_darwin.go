package transfer

import "syscall"

// statChangeTime returns when a file's place, content or rights were last changed.
func statChangeTime(st *syscall.Stat_t) syscall.Timespec { return st.Ctimespec }
