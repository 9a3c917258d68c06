module ucxx_rs/ucxx

go 1.19
