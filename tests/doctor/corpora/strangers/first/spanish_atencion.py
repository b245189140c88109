import torch
import torch.nn as nn


class AtencionMultiCabeza(nn.Module):
    """Atención multi-cabeza (producto punto escalado).

    consulta: (lote, n, dim)   clave, valor: (lote, m, dim)
    """

    def __init__(self, dim, cabezas):
        super().__init__()
        self.cabezas = cabezas
        self.dim_cabeza = dim // cabezas
        self.proy_consulta = nn.Linear(dim, dim)
        self.proy_clave = nn.Linear(dim, dim)
        self.proy_valor = nn.Linear(dim, dim)
        self.proy_salida = nn.Linear(dim, dim)

    def dividir(self, x):
        lote, n, _ = x.shape
        return x.view(lote, n, self.cabezas, self.dim_cabeza).transpose(1, 2)

    def forward(self, consulta, clave, valor, mascara=None):
        q = self.dividir(self.proy_consulta(consulta))
        k = self.dividir(self.proy_clave(clave))
        v = self.dividir(self.proy_valor(valor))
        puntajes = torch.matmul(q, k.transpose(-2, -1))
        if mascara is not None:
            puntajes = puntajes.masked_fill(mascara == 0, float("-inf"))
        pesos = torch.softmax(puntajes, dim=-1)
        salida = torch.matmul(pesos, v).transpose(1, 2).flatten(2)
        return self.proy_salida(salida)


if __name__ == "__main__":
    x = torch.randn(2, 6, 32)
    print(AtencionMultiCabeza(32, 4)(x, x, x).shape)
