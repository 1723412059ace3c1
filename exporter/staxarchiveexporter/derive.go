package staxarchiveexporter

import "context"

func derive(context.Context, string) error { return nil }
