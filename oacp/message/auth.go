package message

func (f *findings) auth() {}
