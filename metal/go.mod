module github.com/stax-otel/stax/metal

go 1.25.0
